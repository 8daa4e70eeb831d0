"""What all published sets have in common: a partition, a number of clients, a split inside them.

    digits(lda(0), clients=50)
    cifar100(pam(), clients=500)
    fashion_mnist(pathological(5), clients=100, split=0.7, pool=True)

A `FileSet` has files. One that was read is kept for the next opening in the same process, as long
as its files do not change.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from fedflat.data.examples import Examples
from fedflat.data.federation import DataSpec, Federation
from fedflat.data.files.paths import FileLayout, locate
from fedflat.data.files.sources import Source
from fedflat.data.partitions.iid import Iid
from fedflat.data.partitions.partition import Partition
from fedflat.data.raw import RawSet
from fedflat.data.splitting import check_cut, federate
from fedflat.errors import SettingError
from fedflat.registry.specs import name_of


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
    def name(self) -> str:
        """The name it is said by."""
        return name_of(type(self))

    @abstractmethod
    def raw(self) -> RawSet:
        """All its examples as published."""

    def ready(self, raw: RawSet) -> Examples:
        """The examples with what must be done to a batch of them."""
        return Examples(raw.x, raw.y, raw.classes)

    def open(self, seed: int) -> Federation:
        """The federation for this seed, unless the set has its own."""
        raw = self.raw()
        seed = seed if self.seed is None else self.seed
        coarse = None if raw.coarse is None else raw.coarse.numpy()
        return federate(
            self.ready(raw),
            raw.train,
            self.partition,
            self.clients,
            seed,
            split=self.split,
            pool=self.pool,
            coarse=coarse,
        )


class FileSet(NamedSet):
    """A set that is published as files: which, how they are read, and where they can be had."""

    layout: ClassVar[FileLayout]
    sources: ClassVar[tuple[Source, ...]] = ()
    """Tried in turn; none if people must bring the files."""
    counts: ClassVar[tuple[int, int]]
    """How many training and test examples it has when it is whole; for those that can be
    fetched."""
    balanced: ClassVar[bool] = True
    """Whether all classes have equally many."""
    by_hand: ClassVar[str] = ""
    """Where people find it, in a sentence, if no source works."""

    @classmethod
    @abstractmethod
    def read(cls, files: Sequence[Path]) -> RawSet:
        """The set in these files, which are in the order of the layout."""

    def raw(self) -> RawSet:
        files = locate(self.name, self.layout)
        return _read(type(self), tuple(files), tuple(file.stat().st_mtime_ns for file in files))


@lru_cache(maxsize=2)
def _read(kind: type[FileSet], files: tuple[Path, ...], written: tuple[int, ...]) -> RawSet:
    return kind.read(files)
