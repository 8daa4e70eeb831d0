"""Fashion-MNIST."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fedflat.data.examples import Examples
from fedflat.data.files.idx import IDX, read_idx_set
from fedflat.data.files.paths import FileLayout
from fedflat.data.files.sources import OnMessage, UnavailableError, command, files
from fedflat.data.named_set import FileSet
from fedflat.data.raw import RawSet
from fedflat.errors import choice
from fedflat.registry.specs import register

URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
MD5 = (
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
        files(URL, {f"{name}.gz": md5 for name, md5 in zip(IDX, MD5, strict=True)}),
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
