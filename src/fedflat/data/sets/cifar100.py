"""CIFAR-100, with its 100 classes or its 20 coarse classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedflat.data.files.cifar import KRIZHEVSKY, read_cifar
from fedflat.data.files.paths import FileLayout
from fedflat.data.files.sources import archive
from fedflat.data.raw import RawSet
from fedflat.data.sets.cifar10 import Cifar10
from fedflat.errors import choice
from fedflat.registry.specs import register

# The coarse class of each of CIFAR-100's fine classes.
FINE_TO_COARSE = (
    4,
    1,
    14,
    8,
    0,
    6,
    7,
    7,
    18,
    3,
    3,
    14,
    9,
    18,
    7,
    11,
    3,
    9,
    7,
    11,
    6,
    11,
    5,
    10,
    7,
    6,
    13,
    15,
    3,
    15,
    0,
    11,
    1,
    10,
    12,
    14,
    16,
    9,
    11,
    5,
    5,
    19,
    8,
    8,
    15,
    13,
    14,
    17,
    18,
    10,
    16,
    4,
    17,
    4,
    2,
    0,
    17,
    4,
    18,
    17,
    10,
    3,
    2,
    12,
    12,
    16,
    12,
    1,
    9,
    19,
    2,
    10,
    0,
    1,
    16,
    12,
    9,
    13,
    15,
    13,
    16,
    19,
    2,
    4,
    6,
    19,
    5,
    5,
    8,
    19,
    18,
    1,
    2,
    15,
    6,
    0,
    17,
    8,
    14,
    13,
)


@dataclass(frozen=True, repr=False)
class Cifar100(Cifar10):
    """60,000 colour images of 32x32 pixels in 100 classes, in 20 groups (Krizhevsky, 2009).

    labels
        ``"fine"``: the 100 classes. ``"coarse"``: the 20, for the model and for the partition.

    The other arguments are those of ``cifar10``.
    """

    layout = FileLayout(("cifar-100-binary",), ("train.bin", "test.bin"))
    sources = (
        archive(
            f"{KRIZHEVSKY}cifar-100-binary.tar.gz",
            "03b5dce01913d631647c71ecec9e9cb8",
            "cifar-100-binary",
        ),
    )
    colours = {
        "fedsam": ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
        "fedgloss": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    }

    labels: str = "fine"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.name, "labels", self.labels, ["fine", "coarse"])

    @classmethod
    def read(cls, files: Sequence[Path]) -> RawSet:
        return read_cifar(files[:-1], files[-1], 100)

    def raw(self) -> RawSet:
        raw = super().raw()
        if self.labels == "coarse" and raw.coarse is not None:
            return RawSet(raw.x, raw.coarse, raw.train, 20, raw.coarse)
        return raw


cifar100 = register("data set", "cifar100")(Cifar100)
