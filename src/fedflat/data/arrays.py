"""Conversion of NumPy arrays, lists and torch data sets to tensors."""

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
"""A tensor, or anything that NumPy can convert to an array."""
Pair: TypeAlias = tuple[Arrays, Arrays] | Dataset[Any]
"""Inputs and labels, or a data set of pairs of one input and its label."""


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


def pair(owner: str, source: Pair) -> tuple[Tensor, Tensor]:
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
    return tensor(owner, "inputs", x), tensor(owner, "labels", y)


def _read(owner: str, source: Dataset[Any]) -> tuple[Tensor, Tensor]:
    """All examples of a data set, each read once."""
    items: Iterable[Any] = source  # type: ignore[assignment]
    if hasattr(source, "__len__"):
        items = (source[place] for place in range(len(source)))
    xs, ys = [], []
    for place, item in enumerate(items):
        try:
            x, y = item
            xs.append(x if isinstance(x, Tensor) else tensor(owner, "inputs", x))
            ys.append(_label(owner, y))
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
    return torch.stack(xs).detach(), torch.stack(ys)


def _label(owner: str, y: Any) -> Tensor:
    """A class, a number, or an array of either."""
    found = tensor(owner, "labels", y)
    return found if found.dim() or found.is_floating_point() else torch.tensor(int(found))
