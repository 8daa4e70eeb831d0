"""A complete data set as its files contain it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedflat.data.domains import Domains
from fedflat.errors import DataError

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class RawSet:
    """A complete data set: in each tensor the training examples, followed by the test examples."""

    x: Tensor
    y: Tensor
    train: int
    classes: int
    coarse: Tensor | None = None
    users: Tensor | None = None
    """The owner of each example; -1 for test examples without a training owner."""
    domains: Domains | None = None
    """The domain of each example, if known."""


def labels_below(path: Path, labels: Bytes, classes: int, what: str = "label") -> None:
    """Refuse labels of classes that do not exist."""
    wrong = np.flatnonzero(labels >= classes)
    if len(wrong):
        raise DataError(
            f"{path}: {what}s must be below {classes}, found {labels[wrong[0]]} at example "
            f"{wrong[0]}. It is damaged or of another format."
        )
