"""The digits of scikit-learn; no download is needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fedflat.data.named_set import NamedSet
from fedflat.data.raw import RawSet
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class Digits(NamedSet):
    """1,797 digits of 8x8 pixels, from scikit-learn: shape (1, 8, 8), values from 0 to 1.

    Every fifth example of a class is for testing, whatever the seed.

    >>> from fedflat import lda
    >>> digits(lda(0.1), clients=50)
    digits(lda(0.1), clients=50)
    """

    origin = "comes with scikit-learn"

    def raw(self) -> RawSet:
        return _digits()


@cache
def _digits() -> RawSet:
    x, y = _digits_file()
    rank = np.empty(len(y), np.int64)
    for c in range(10):
        rank[y == c] = np.arange(np.count_nonzero(y == c))
    order = np.argsort(rank % 5 == 4, kind="stable")
    images = torch.from_numpy(x[order].astype(np.float32) / 16).view(-1, 1, 8, 8)
    train = int(np.count_nonzero(rank % 5 != 4))
    return RawSet(images, torch.from_numpy(y[order].astype(np.int64)), train, 10)


def _digits_file() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The digits from scikit-learn's file, without importing scikit-learn, which takes a second."""
    spec = find_spec("sklearn")
    for folder in (spec and spec.submodule_search_locations) or []:
        path = Path(folder) / "datasets" / "data" / "digits.csv.gz"
        if path.is_file():
            table = np.loadtxt(path, delimiter=",")
            return table[:, :-1], table[:, -1]
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return x, y


digits = register("data set", "digits")(Digits)
