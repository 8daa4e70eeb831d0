"""Readers of the files in which MNIST, Fashion-MNIST and CIFAR are published: idx and CIFAR's binary layout.

An idx file is two zero bytes, a type (8: unsigned byte), the number of dimensions, the sizes as big-endian
32-bit numbers, and the bytes; it may be compressed with gzip. A CIFAR record is one label byte (CIFAR-10) or
a coarse and a fine one (CIFAR-100), then 1024 red, 1024 green and 1024 blue bytes. Nothing is unpickled.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedflat.errors import DataError

Bytes = NDArray[np.uint8]
PIXELS = 3 * 32 * 32
LARGEST = {1: 60_000, 3: 60_000 * 28 * 28}
"""Bytes of data in the largest idx file of labels and of images; no more is ever read."""
MOST_RECORDS = 50_000
"""Of a CIFAR file."""
CIFAR10_TRAIN = tuple(f"data_batch_{k}.bin" for k in range(1, 6))
CIFAR10_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True)
class Raw:
    """A whole published set: the training examples, then, in the same tensors, the test examples."""

    x: Tensor
    y: Tensor
    train: int
    classes: int
    coarse: Tensor | None = None


def read_set(name: str, files: Sequence[Path]) -> Raw:
    """The published set called ``name``, from its files in the order of its layout."""
    if name in ("cifar10", "cifar100"):
        return read_cifar(files[:-1], files[-1], int(name.removeprefix("cifar")))
    return read_idx_set(files)


def read_idx(path: Path, dims: int) -> Bytes:
    """The array of bytes with ``dims`` dimensions in an idx file, plain or ``.gz``."""
    try:
        with cast(BinaryIO, gzip.open(path) if path.suffix == ".gz" else path.open("rb")) as file:
            head = file.read(4)
            if len(head) < 4 or head[:2] != b"\0\0":
                raise DataError(
                    f"{path} is no idx file: it must begin with 0000, found {head.hex()!r}. Fetch it again."
                )
            if head[2] != 8 or head[3] != dims:
                raise DataError(
                    f"{path} must hold unsigned bytes (type 8) in {dims} dimensions, found type {head[2]} in "
                    f"{head[3]}. Is it the right file?"
                )
            sizes = np.frombuffer(_exactly(file, 4 * dims), ">u4").tolist()
            if prod(sizes) > LARGEST[dims]:
                raise DataError(
                    f"{path} must hold at most {LARGEST[dims]} bytes of data, but says that it holds "
                    f"{' x '.join(map(str, sizes))}. Is it the right file?"
                )
            data = file.read(prod(sizes) + 1)  # one byte more than promised, to notice a file that goes on
    except (EOFError, zlib.error, OSError) as error:
        raise DataError(f"{path} is damaged or was cut off: {error}. Fetch it again.") from None
    if len(data) != prod(sizes):
        found = f"only {len(data)}" if len(data) < prod(sizes) else "more"
        raise DataError(f"{path} must have {prod(sizes)} bytes of data, found {found}. Fetch it again.")
    return np.frombuffer(data, np.uint8).reshape(sizes)


def _exactly(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise EOFError("it ends within its header")
    return data


def read_idx_set(files: Sequence[Path], classes: int = 10) -> Raw:
    """The set in the files of training images, training labels, test images and test labels."""
    images, labels = zip(*((read_idx(files[k], 3), read_idx(files[k + 1], 1)) for k in (0, 2)), strict=True)
    for k in (0, 1):
        if len(images[k]) != len(labels[k]):
            raise DataError(
                f"{files[2 * k]} has {len(images[k])} images, and {files[2 * k + 1].name} has "
                f"{len(labels[k])} labels. They do not belong together: fetch both again."
            )
        _labels_below(files[2 * k + 1], labels[k], classes)
    if images[0].shape[1:] != images[1].shape[1:]:
        sizes = [part.shape[1:] for part in images]
        raise DataError(f"{files[0]} has images of {sizes[0]}, {files[2].name} of {sizes[1]}. Fetch both.")
    x = torch.from_numpy(np.concatenate(images)).unsqueeze(1)
    y = torch.from_numpy(np.concatenate(labels).astype(np.int64))
    return Raw(x, y, len(images[0]), classes)


def read_cifar(train: Sequence[Path], test: Path, classes: int) -> Raw:
    """CIFAR-10 (``classes`` 10) or CIFAR-100 (100, with coarse labels) from its binary files."""
    heads = 2 if classes == 100 else 1
    files = [*train, test]
    counts = [_records(path, heads) for path in files]
    x = np.empty((sum(counts), PIXELS), np.uint8)
    head = np.empty((sum(counts), heads), np.int64)
    start = 0
    for path, count in zip(files, counts, strict=True):
        # Mapped, so that the file is never in memory twice.
        records = np.memmap(path, np.uint8, "r", shape=(count, heads + PIXELS))
        _labels_below(path, records[:, heads - 1], classes)
        if heads == 2:
            _labels_below(path, records[:, 0], 20, "coarse label")
        head[start : start + count] = records[:, :heads]
        x[start : start + count] = records[:, heads:]
        start += count
    y = torch.from_numpy(head[:, -1].copy())
    coarse = torch.from_numpy(head[:, 0].copy()) if heads == 2 else None
    return Raw(torch.from_numpy(x).view(-1, 3, 32, 32), y, sum(counts[:-1]), classes, coarse)


def _records(path: Path, heads: int) -> int:
    size, record = path.stat().st_size, heads + PIXELS
    if size > MOST_RECORDS * record:
        raise DataError(
            f"{path} must hold at most {MOST_RECORDS} records of {record} bytes, found {size} bytes. Is it the "
            "right file?"
        )
    if size == 0 or size % record:
        raise DataError(
            f"{path} must be a whole number of records of {record} bytes, found {size} bytes. It was cut "
            "off, or is not CIFAR's binary version: fetch it again."
        )
    return size // record


def _labels_below(path: Path, labels: Bytes, classes: int, what: str = "label") -> None:
    wrong = np.flatnonzero(labels >= classes)
    if len(wrong):
        raise DataError(
            f"{path}: {what}s must be below {classes}, found {labels[wrong[0]]} at example {wrong[0]}. "
            "It is damaged or of another format."
        )


def write_cifar10(folder: Path, images: Bytes, labels: Bytes) -> None:
    """Write images ``(60000, 3, 32, 32)``, test images last, as CIFAR-10's binary files into ``folder``."""
    names = [*CIFAR10_TRAIN, "test_batch.bin"]
    if len(images) != len(labels) or len(images) % len(names):
        raise DataError(f"six equal batches cannot be made of {len(images)} images and {len(labels)} labels.")
    folder.mkdir(parents=True, exist_ok=True)
    records = np.concatenate([labels[:, None], images.reshape(len(images), PIXELS)], axis=1).astype(np.uint8)
    for name, part in zip(names, np.split(records, len(names)), strict=True):
        part.tofile(folder / name)
    (folder / "batches.meta.txt").write_text("\n".join(CIFAR10_NAMES) + "\n", encoding="utf-8")
