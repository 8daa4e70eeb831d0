"""A whole published set, as its files have it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedflat.errors import DataError

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class RawSet:
    """A whole published set: the training examples, then, in the same tensors, the test
    examples."""

    x: Tensor
    y: Tensor
    train: int
    classes: int
    coarse: Tensor | None = None
    users: Tensor | None = None
    """Whose each example is; -1 for those of nobody who trains."""


def labels_below(path: Path, labels: Bytes, classes: int, what: str = "label") -> None:
    """Refuse labels of classes that are not there."""
    wrong = np.flatnonzero(labels >= classes)
    if len(wrong):
        raise DataError(
            f"{path}: {what}s must be below {classes}, found {labels[wrong[0]]} at example {wrong[0]}. "
            "It is damaged or of another format."
        )
