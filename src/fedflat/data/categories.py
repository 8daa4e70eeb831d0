"""Values of any kind as tensors: arrays, lists, torch data sets; labels and owners with their names."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from fedflat.errors import DataError, SettingError, shown


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


Arrays: TypeAlias = Tensor | ArrayLike
"""A tensor, or anything that NumPy can convert to an array."""
Pair: TypeAlias = tuple[Arrays, Arrays] | Dataset[Any]
"""Inputs and labels, or a data set of pairs (or dicts) of one input and its label."""
Labels: TypeAlias = Tensor | NDArray[Any]
"""Numbers as a tensor; words, truth values and other objects as an array."""
INPUT_KEYS = ("image", "images", "img", "pixel_values", "input", "inputs", "features", "x", "data")
LABEL_KEYS = ("label", "labels", "target", "targets", "class", "y")


def tensor(owner: str, what: str, value: Arrays) -> Tensor:
    """``value`` as a tensor. Tensors stay unchanged; other integers become 64-bit.

    >>> tensor("tensors", "labels", [1, 2]).dtype
    torch.int64
    """
    if isinstance(value, Tensor):
        return value.detach()
    try:
        array = np.asarray(value)
        if array.dtype.kind in "iu" and array.dtype != np.uint8:
            array = array.astype(np.int64)
        native = array.dtype.newbyteorder("=")
        return torch.from_numpy(np.require(array, native, ["C", "W"]))
    except (TypeError, ValueError) as error:
        raise SettingError(
            f"{owner}: the {what} must be a tensor or an array of numbers, all of one shape, found "
            f"{type(value).__name__} ({error})."
        ) from None


def labels(owner: str, value: Arrays) -> Labels:
    """Labels as numbers, or as an array of names if they are words or truth values.

    >>> labels("tensors", ["no", "yes"])
    array(['no', 'yes'], dtype=object)
    """
    if isinstance(value, Tensor):
        return value.detach().numpy() if value.dtype == torch.bool and value.dim() == 1 else value
    array = np.asarray(value)
    if array.ndim == 1 and array.dtype.kind in "bOUS":
        return array.astype(object)
    return tensor(owner, "labels", value)


def numbered(owner: str, parts: Sequence[Labels]) -> tuple[list[Tensor], tuple[str, ...]]:
    """Labels as class numbers, and the names of the classes.

    Numbers from 0 and values stay as they are and have no names. Words, truth values and numbers
    below 0 are numbered together, in ascending order.
    """
    if all(isinstance(part, Tensor) and not _has_negative_classes(part) for part in parts):
        return [part for part in parts if isinstance(part, Tensor)], ()
    found = categories(owner, "label", [value for part in parts for value in part.tolist()])
    return list(found.codes.split([len(part) for part in parts])), found.names


def _has_negative_classes(y: Tensor) -> bool:
    whole = y.dim() == 1 and not (y.is_floating_point() or y.is_complex())
    return whole and len(y) > 0 and int(y.min()) < 0


def pair(owner: str, source: Pair) -> tuple[Tensor, Labels]:
    """The inputs and labels of a pair or a data set."""
    if isinstance(source, DataLoader):
        raise SettingError(
            f"{owner}: a DataLoader makes batches itself. Pass its data set: loader.dataset."
        )
    if isinstance(source, TensorDataset) and len(source.tensors) == 2:
        return source.tensors[0].detach(), source.tensors[1].detach()
    if isinstance(source, Dataset):
        return _read(owner, source)
    try:
        x, y = source
    except (TypeError, ValueError):
        raise SettingError(
            f"{owner}: there must be a pair of inputs and labels or a torch Dataset, found "
            f"{type(source).__name__}."
        ) from None
    return tensor(owner, "inputs", x), labels(owner, y)


def _read(owner: str, source: Dataset[Any]) -> tuple[Tensor, Labels]:
    """All examples of a data set, each read once."""
    items: Iterable[Any] = source  # type: ignore[assignment]
    if hasattr(source, "__len__"):
        items = (source[place] for place in range(len(source)))
    xs, ys = [], []
    for place, item in enumerate(items):
        try:
            x, y = _of_dict(owner, item) if isinstance(item, Mapping) else item
            xs.append(x if isinstance(x, Tensor) else tensor(owner, "inputs", x))
            ys.append(y if isinstance(y, str | bool | np.bool_) else _label(owner, y))
        except (TypeError, ValueError) as error:
            raise SettingError(
                f"{owner}: a data set must give pairs of an input, as a tensor, and a number or "
                f"array for its label; its example {place} cannot be read ({error}). A transform "
                "such as ToTensor() makes tensors of images."
            ) from None
    if not xs:
        raise SettingError(f"{owner}: there must be examples, found a data set of none.")
    if len({(x.shape, x.dtype) for x in xs}) > 1:
        found = " and ".join(sorted({str(tuple(x.shape)) for x in xs})[:2])
        raise SettingError(f"{owner}: all inputs of a data set must be alike, found {found}.")
    inputs, numbers = torch.stack(xs).detach(), [y for y in ys if isinstance(y, Tensor)]
    if len(numbers) < len(ys):
        return inputs, np.array(ys, dtype=object)
    return inputs, torch.stack(numbers)


def _of_dict(owner: str, item: Mapping[str, Any]) -> tuple[Any, Any]:
    """The input and the label of an example that is a dict, by their usual names."""
    known = [[name for name in names if name in item] for names in (INPUT_KEYS, LABEL_KEYS)]
    if not all(known):
        raise SettingError(
            f"{owner}: the examples are dicts with {', '.join(map(str, item))}, and it is not "
            "clear which is the input and which the label. Name them: ff.table(data, "
            "inputs=['...'], target='...')."
        )
    return item[known[0][0]], item[known[1][0]]


def _label(owner: str, y: Any) -> Tensor:
    """A class, a number, or an array of either."""
    found = tensor(owner, "labels", y)
    return found if found.dim() or found.is_floating_point() else torch.tensor(int(found))
