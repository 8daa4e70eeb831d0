"""Labels and owners of any kind, as numbers from 0 with their names."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedflat.errors import DataError, shown


@dataclass(frozen=True)
class Categories:
    """Numbers from 0, and the name of each."""

    codes: Tensor
    """One number for each value, 64-bit."""
    names: tuple[str, ...]


def is_missing(value: object) -> bool:
    """True for None, NaN, pandas' NA and NaT, and empty text.

    >>> is_missing(""), is_missing(float("nan")), is_missing(None), is_missing(0)
    (True, True, True, False)
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    try:
        return not bool(value == value)
    except (TypeError, ValueError):  # pandas' NA has no truth value
        return True


def categories(
    owner: str, what: str, values: Iterable[object], order: Sequence[str] | None = None
) -> Categories:
    """Number the different values in ascending order, or in the given ``order`` of names.

    Numbers are ordered by size, also if they are written as text; other values by name.

    >>> found = categories("csv", "label", ["10", "9", "10"])
    >>> found.codes.tolist(), found.names
    ([1, 0, 1], ('9', '10'))
    >>> categories("csv", "label", [True, False]).names
    ('False', 'True')
    """
    names = [_name(owner, what, value) for value in values]
    different = set(names)
    ordered = tuple(sorted(different, key=_order(different))) if order is None else tuple(order)
    places = {name: place for place, name in enumerate(ordered)}
    unknown = sorted(different - set(places))
    if unknown:
        raise DataError(
            f"{owner}: there is the {what} {shown(unknown[0])}, and the known ones are "
            f"{', '.join(ordered[:20])}. Add it to them."
        )
    return Categories(torch.tensor([places[name] for name in names], dtype=torch.long), ordered)


def _name(owner: str, what: str, value: object) -> str:
    """The name of a value; numbers without a fraction are written as whole numbers."""
    if isinstance(value, Tensor | np.generic | np.ndarray):
        if np.ndim(value) > 0:
            raise DataError(
                f"{owner}: every {what} must be one value, found an array of shape "
                f"{tuple(value.shape)}."
            )
        value = value.item()
    if is_missing(value):
        raise DataError(f"{owner}: a {what} is missing. Fill it in, or leave its example out.")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if not isinstance(value, Hashable):
        raise DataError(f"{owner}: every {what} must be one value, found {shown(value)}.")
    return str(value).strip()


def _order(names: Iterable[str]) -> Any:
    """The key by which names are sorted: as numbers if all are."""
    try:
        if all(np.isfinite(float(name)) for name in names):
            return float
    except ValueError:
        pass
    return None


def are_classes(values: Sequence[object]) -> bool:
    """True if values are words, truth values or whole numbers; False if they are other numbers.

    >>> are_classes(["3", "5"]), are_classes(["3", "5.5"]), are_classes([1.5, 2.0])
    (True, False, False)
    """
    if any(isinstance(value, bool | np.bool_) for value in values):
        return True
    if all(isinstance(value, float | np.floating) for value in values):
        return False
    return all(map(_is_whole, values)) or not all(map(is_number, values))


def _is_whole(value: object) -> bool:
    if isinstance(value, str):
        word = value.strip()
        return word.isascii() and word.lstrip("+-").isdecimal()
    return isinstance(value, int | np.integer)


def is_number(value: object) -> bool:
    """True for finite numbers, also written as text.

    >>> is_number("1e3"), is_number("nan"), is_number("red")
    (True, False, False)
    """
    try:
        return bool(np.isfinite(float(value)))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
