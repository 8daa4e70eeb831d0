"""Base classes of published data sets: a partition, a number of clients, a split within them.

    digits(lda(0), clients=50)
    cifar100(pam(), clients=500)
    fashion_mnist(pathological(5), clients=100, split=0.7, pool=True)
    shakespeare(clients=100)
    femnist(iid(), clients=3500)

A `FileSet` is read from files. It is cached for the process as long as its files do not change. In
a `NaturalSet` examples have owners, who become the clients: writers, roles in plays. The seed
selects as many owners as there are clients. Other partitions redistribute the examples of the same
owners.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedflat.core.seeds import numpy_generator
from fedflat.data.domains import Domains
from fedflat.data.examples import Examples
from fedflat.data.federation import DataSpec, Federation
from fedflat.data.files.paths import FileLayout, locate
from fedflat.data.files.sources import Source
from fedflat.data.partitions.given import ByUser
from fedflat.data.partitions.iid import Iid
from fedflat.data.partitions.partition import Index, Partition
from fedflat.data.splitting import check_cut, federate
from fedflat.errors import DataError, SettingError
from fedflat.registry.specs import name_of

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


@dataclass(frozen=True, repr=False)
class NamedSet(DataSpec):
    """Base class of all named sets.

    partition
        How examples are assigned to clients. The other arguments are given by name.
    clients
        The number of clients, K.
    split
        Share of each client's examples for training; the rest are its own test set. ``None``: no
        split.
    pool
        Partition training and test examples together, and test on what the clients hold out
        (needs ``split``).
    seed
        Seed of the partition and the split. ``None``: the seed of the run.
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
                f"{self.name}: pool=True partitions the test set too, so clients must hold out a "
                "part to test on. Add split=0.7, or remove pool."
            )

    def __repr__(self) -> str:
        name, _, rest = super().__repr__().partition("(")
        return f"{name}({rest.removeprefix('partition=')}"

    @property
    def name(self) -> str:
        """The registered name."""
        return name_of(type(self))

    @abstractmethod
    def raw(self) -> RawSet:
        """All examples as published."""

    def to_examples(self, raw: RawSet) -> Examples:
        return Examples(raw.x, raw.y, raw.classes, domains=raw.domains)

    def selected(self, seed: int) -> RawSet:
        """The examples of the clients that this seed selects; all, unless examples have owners."""
        return self.raw()

    def open(self, seed: int) -> Federation:
        seed = seed if self.seed is None else self.seed
        raw = self.selected(seed)
        return federate(
            self.to_examples(raw),
            raw.train,
            self.partition,
            self.clients,
            seed,
            split=self.split,
            pool=self.pool,
            coarse=None if raw.coarse is None else raw.coarse.numpy(),
            users=None if raw.users is None else raw.users.numpy(),
        )


class FileSet(NamedSet):
    """A set published as files: their names, how to read them, and where to download them."""

    layout: ClassVar[FileLayout]
    sources: ClassVar[tuple[Source, ...]] = ()
    """Sources, tried in turn; none if users must provide the files."""
    counts: ClassVar[tuple[int, int]]
    """The numbers of training and test examples of the complete set, to check downloads."""
    balanced: ClassVar[bool] = True
    """True if all classes have equally many examples."""
    by_hand: ClassVar[str] = ""
    """A sentence that says where users find the files."""

    @classmethod
    @abstractmethod
    def read(cls, files: Sequence[Path]) -> RawSet:
        """Read the set from its files, given in the order of the layout."""

    def raw(self) -> RawSet:
        files = locate(self.name, self.layout)
        return _read(type(self), tuple(files), tuple(file.stat().st_mtime_ns for file in files))


@lru_cache(maxsize=2)
def _read(kind: type[FileSet], files: tuple[Path, ...], written: tuple[int, ...]) -> RawSet:
    return kind.read(files)


@dataclass(frozen=True, repr=False)
class NaturalSet(FileSet):
    """A set that is published with the owners of its examples."""

    partition: Partition = field(default_factory=ByUser)

    whose: ClassVar[str]
    """The plural noun for its owners."""

    @abstractmethod
    def owners(self) -> Index:
        """The ids of all owners with enough examples, in ascending order."""

    def of(self, owners: Index) -> RawSet:
        """The examples of these owners with their ids, and test examples of these owners or of
        none."""
        raw = self.raw()
        assert raw.users is not None
        users = raw.users.numpy()
        selected = np.isin(users, [*owners, -1])
        if selected.all():
            return raw
        return RawSet(
            raw.x[selected],
            raw.y[selected],
            int(selected[: raw.train].sum()),
            raw.classes,
            None,
            raw.users[selected],
            raw.domains and raw.domains.of(np.flatnonzero(selected).tolist()),
        )

    def selected(self, seed: int) -> RawSet:
        return self.of(select_owners(self.name, self.whose, self.owners(), self.clients, seed))


def select_owners(name: str, whose: str, owners: Index, clients: int, seed: int) -> Index:
    """``clients`` owners selected by the seed, in ascending order; an error if there are too few.

    >>> select_owners("plays", "roles", np.array([3, 5, 9]), 3, seed=0).tolist()
    [3, 5, 9]
    """
    if len(owners) < clients:
        raise SettingError(
            f"{name}: {clients} clients need as many {whose}, found {len(owners)}. Use fewer "
            "clients."
        )
    if len(owners) == clients:
        return owners
    chosen: Index = np.sort(numpy_generator(seed, "owners").choice(owners, clients, replace=False))
    return chosen
