"""The data sets one can name: ``digits``, ``mnist``, ``fashion_mnist``, ``cifar10``, ``cifar100``.

    digits(lda(0), clients=50)
    cifar100(pam(), clients=500)
    fashion_mnist(pathological(5), clients=100, split=0.7, pool=True)

``digits`` comes with scikit-learn and needs no file. A set that was read is kept for the next opening in the
same process, as long as its files do not change.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, field
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fedflat.data.augment import CropFlip
from fedflat.data.examples import Augment, Examples
from fedflat.data.federation import DataSpec, Federation
from fedflat.data.formats import Raw, read_set
from fedflat.data.partition import Iid, Partition
from fedflat.data.places import LAYOUTS, locate
from fedflat.data.splitting import check_cut, federate
from fedflat.errors import SettingError, choice
from fedflat.language.spelling import register

NORMALISE = {
    ("cifar10", "fedsam"): ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    ("cifar10", "fedgloss"): ((0.4914, 0.4822, 0.4465), (0.2470, 0.2434, 0.2616)),
    ("cifar100", "fedsam"): ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
    ("cifar100", "fedgloss"): ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}
"""Mean and standard deviation of the colours as the two papers' repositories have them."""

# The coarse class of each of CIFAR-100's fine classes.
FINE_TO_COARSE = (
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7,
    6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10,
    16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16,
    12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class NamedSet(DataSpec):
    """What all named sets have in common.

    partition
        Who holds what. All else is said by name.
    clients
        The number of clients, K.
    split
        Share of each client's examples it trains on; the rest are its own test set. ``None``: no such split.
    pool
        Deal out training and test examples together, and test on what the clients held out (needs ``split``).
    seed
        Decides the partition and the split. ``None``: the seed of the run does.
    """

    partition: Partition = field(default_factory=Iid)
    _: KW_ONLY
    clients: int = 100
    split: float | None = None
    pool: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        check_cut(self.name, self.partition, self.clients, self.split, self.seed)
        if self.pool and self.split is None:
            raise SettingError(
                f"{self.name}: pool=True deals the test set out too, so clients must keep a part to test on. "
                "Say split=0.7, or leave pool out."
            )

    def __repr__(self) -> str:
        name, _, rest = super().__repr__().partition("(")
        return f"{name}({rest.removeprefix('partition=')}"

    @property
    @abstractmethod
    def name(self) -> str:
        """The name it is said by."""

    def raw(self) -> Raw:
        """All its examples as published."""
        return _read(self.name)

    def ready(self, raw: Raw) -> Examples:
        """The examples with what must be done to a batch of them."""
        return Examples(raw.x, raw.y, raw.classes)

    def open(self, seed: int) -> Federation:
        """The federation for this seed, unless the set has its own."""
        raw = self.raw()
        seed = seed if self.seed is None else self.seed
        coarse = None if raw.coarse is None else raw.coarse.numpy()
        return federate(
            self.ready(raw), raw.train, self.partition, self.clients, seed,
            split=self.split, pool=self.pool, coarse=coarse,
        )


@dataclass(frozen=True, repr=False)
class Digits(NamedSet):
    """1,797 digits of 8x8 pixels, from scikit-learn: shape (1, 8, 8), values from 0 to 1.

    Every fifth example of a class is for testing, whatever the seed.

    >>> from fedflat.data.partition import lda
    >>> digits(lda(0.1), clients=50)
    digits(lda(0.1), clients=50)
    """

    origin = "comes with scikit-learn"

    @property
    def name(self) -> str:
        """See `NamedSet.name`."""
        return "digits"

    def raw(self) -> Raw:
        """See `NamedSet.raw`."""
        return _digits()


@dataclass(frozen=True, repr=False)
class Mnist(NamedSet):
    """70,000 handwritten digits of 28x28 pixels (LeCun et al., 1998)."""

    @property
    def name(self) -> str:
        """See `NamedSet.name`."""
        return "mnist"

    def ready(self, raw: Raw) -> Examples:
        """See `NamedSet.ready`."""
        return Examples(raw.x, raw.y, raw.classes, (0.1307,), (0.3081,))


@dataclass(frozen=True, repr=False)
class FashionMnist(NamedSet):
    """70,000 pieces of clothing in 28x28 pixels (Xiao et al., 2017)."""

    @property
    def name(self) -> str:
        """See `NamedSet.name`."""
        return "fashion_mnist"

    def ready(self, raw: Raw) -> Examples:
        """See `NamedSet.ready`."""
        return Examples(raw.x, raw.y, raw.classes, (0.2860,), (0.3530,))


@dataclass(frozen=True, repr=False)
class Cifar10(NamedSet):
    """60,000 colour images of 32x32 pixels in 10 classes (Krizhevsky, 2009).

    augment
        Train on random crops (4 pixels of border) and mirror images.
    normalise
        Whose mean and standard deviation: ``"fedsam"`` or ``"fedgloss"``.
    """

    augment: bool = True
    normalise: str = "fedsam"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.name, "normalise", self.normalise, ["fedsam", "fedgloss"])

    @property
    def name(self) -> str:
        """See `NamedSet.name`."""
        return "cifar10"

    def ready(self, raw: Raw) -> Examples:
        """See `NamedSet.ready`."""
        mean, std = NORMALISE[self.name, self.normalise]
        change: Augment | None = CropFlip() if self.augment else None
        return Examples(raw.x, raw.y, raw.classes, mean, std, change)


@dataclass(frozen=True, repr=False)
class Cifar100(Cifar10):
    """60,000 colour images of 32x32 pixels in 100 classes, grouped in 20 coarse ones (Krizhevsky, 2009).

    labels
        ``"fine"``: the 100 classes. ``"coarse"``: the 20, for the model and for the partition.

    The other arguments are those of ``cifar10``.
    """

    labels: str = "fine"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.name, "labels", self.labels, ["fine", "coarse"])

    @property
    def name(self) -> str:
        """See `NamedSet.name`."""
        return "cifar100"

    def raw(self) -> Raw:
        """See `NamedSet.raw`."""
        raw = super().raw()
        if self.labels == "coarse" and raw.coarse is not None:
            return Raw(raw.x, raw.coarse, raw.train, 20, raw.coarse)
        return raw


def _read(name: str) -> Raw:
    files = locate(LAYOUTS[name])
    return _read_files(name, tuple(files), tuple(file.stat().st_mtime_ns for file in files))


@lru_cache(maxsize=2)
def _read_files(name: str, files: tuple[Path, ...], written: tuple[int, ...]) -> Raw:
    return read_set(name, files)


@cache
def _digits() -> Raw:
    x, y = _digits_file()
    rank = np.empty(len(y), np.int64)
    for c in range(10):
        rank[y == c] = np.arange(np.count_nonzero(y == c))
    order = np.argsort(rank % 5 == 4, kind="stable")
    images = torch.from_numpy(x[order].astype(np.float32) / 16).view(-1, 1, 8, 8)
    train = int(np.count_nonzero(rank % 5 != 4))
    return Raw(images, torch.from_numpy(y[order].astype(np.int64)), train, 10)


def _digits_file() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The digits from scikit-learn's own file; importing it takes a second longer than reading this."""
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
mnist = register("data set", "mnist")(Mnist)
fashion_mnist = register("data set", "fashion_mnist")(FashionMnist)
cifar10 = register("data set", "cifar10")(Cifar10)
cifar100 = register("data set", "cifar100")(Cifar100)
