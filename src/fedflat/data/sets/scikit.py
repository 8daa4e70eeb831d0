"""The digits and the diabetes data of scikit-learn; no download is needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fedflat.data.named_set import NamedSet, RawSet
from fedflat.errors import DataError
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


FILES = ("diabetes_data_raw.csv.gz", "diabetes_target.csv.gz")


@dataclass(frozen=True, repr=False)
class Diabetes(NamedSet):
    """442 patients with ten measurements each, from scikit-learn; the target is a number.

    The target is the progression of the illness after a year. Every fifth patient is for testing,
    for all seeds. Measurements and target are standardized by the training patients, so an error of
    1 is one standard deviation of the target. (Efron et al., Least Angle Regression, 2004.)

    >>> diabetes(clients=8)
    diabetes(clients=8)
    """

    usual_task = "regression()"
    origin = "comes with scikit-learn"

    def raw(self) -> RawSet:
        return _diabetes()


@cache
def _diabetes() -> RawSet:
    x, y = _files()
    tested = np.arange(len(y)) % 5 == 4
    order = np.argsort(tested, kind="stable")
    train = int(np.count_nonzero(~tested))
    table = np.column_stack([x, y])[order]
    table = (table - table[:train].mean(0)) / table[:train].std(0)
    numbers = torch.from_numpy(table.astype(np.float32))
    return RawSet(numbers[:, :-1].contiguous(), numbers[:, -1].contiguous(), train, 0)


def _files() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The numbers from scikit-learn's files, without importing scikit-learn."""
    spec = find_spec("sklearn")
    for folder in (spec and spec.submodule_search_locations) or []:
        paths = [Path(folder) / "datasets" / "data" / name for name in FILES]
        if all(path.is_file() for path in paths):
            return np.loadtxt(paths[0]), np.loadtxt(paths[1])
    raise DataError(
        f"diabetes: scikit-learn's files {' and '.join(FILES)} were not found. Install "
        "scikit-learn."
    )


diabetes = register("data set", "diabetes")(Diabetes)
