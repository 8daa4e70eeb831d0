"""Examples as people have them, made tensors: NumPy arrays, lists, and torch's data sets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from fedflat.errors import SettingError

Arrays: TypeAlias = Tensor | ArrayLike
"""A tensor, or what NumPy takes for an array."""
Pair: TypeAlias = tuple[Arrays, Arrays] | Dataset[Any]
"""Inputs and labels, or a data set that gives one input and its label at a time."""


def tensor(owner: str, what: str, value: Arrays) -> Tensor:
    """``value`` as a tensor; a tensor stays what it is, labels and other whole numbers become
    64-bit.

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


def pair(owner: str, given: Pair) -> tuple[Tensor, Tensor]:
    """The inputs and labels of a pair or a data set."""
    if isinstance(given, DataLoader):
        raise SettingError(
            f"{owner}: a DataLoader cuts batches itself. Give its data set: loader.dataset."
        )
    if isinstance(given, TensorDataset) and len(given.tensors) == 2:
        return given.tensors[0].detach(), given.tensors[1].detach()
    if isinstance(given, Dataset):
        return _read(owner, given)
    try:
        x, y = given
    except (TypeError, ValueError):
        raise SettingError(
            f"{owner}: there must be a pair of inputs and labels or a torch Dataset, found {type(given).__name__}."
        ) from None
    return tensor(owner, "inputs", x), tensor(owner, "labels", y)


def _read(owner: str, given: Dataset[Any]) -> tuple[Tensor, Tensor]:
    """All that a data set gives, one after the other, once."""
    sized = hasattr(given, "__len__")
    items: Iterable[Any] = (given[place] for place in range(len(given))) if sized else given  # type: ignore
    xs, ys = [], []
    for place, item in enumerate(items):
        try:
            x, y = item
            xs.append(x if isinstance(x, Tensor) else tensor(owner, "inputs", x))
            ys.append(_label(owner, y))
        except (TypeError, ValueError) as error:
            raise SettingError(
                f"{owner}: a data set must give pairs of an input, as a tensor, and a number or array for its label; "
                f"its example {place} cannot be read ({error}). A transform such as ToTensor() makes tensors of images."
            ) from None
    if not xs:
        raise SettingError(f"{owner}: there must be examples, found a data set of none.")
    if len({(x.shape, x.dtype) for x in xs}) > 1:
        found = " and ".join(sorted({str(tuple(x.shape)) for x in xs})[:2])
        raise SettingError(f"{owner}: all inputs of a data set must be alike, found {found}.")
    return torch.stack(xs).detach(), torch.stack(ys)


def _label(owner: str, y: Any) -> Tensor:
    """A class, a number, or an array of either."""
    found = tensor(owner, "labels", y)
    return found if found.dim() or found.is_floating_point() else torch.tensor(int(found))
