"""Readers of published file formats. Nothing is unpickled.

idx (MNIST, Fashion-MNIST)
    Two zero bytes, a type (8: unsigned byte), the number of dimensions, the sizes as big-endian
    32-bit numbers, and the bytes; it may be compressed with gzip.
CIFAR
    A record is one label byte (CIFAR-10) or a coarse and a fine one (CIFAR-100), then 1024 red,
    1024 green and 1024 blue bytes.
LEAF (Caldas et al., 2018), after preprocessing
    JSON: {"users": ["f0000_14", ...], "num_samples": [101, ...], "user_data": {"f0000_14": {"x":
    [...], "y": [...]}, ...}}
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import torch

from fedflat.data.named_set import Bytes, RawSet, labels_below
from fedflat.errors import DataError
from fedflat.files import Damaged, open_bytes, parse_json, read_bytes

IDX = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
LARGEST = {1: 60_000, 3: 60_000 * 28 * 28}
"""Most bytes of data in idx files of labels and of images; no more is ever read."""


def read_idx(path: Path, dims: int) -> Bytes:
    """The array of bytes with ``dims`` dimensions in an idx file, plain or ``.gz``."""
    try:
        with (
            open_bytes(path) as raw,
            cast(BinaryIO, gzip.open(raw) if path.suffix == ".gz" else raw) as file,
        ):
            head = file.read(4)
            if len(head) < 4 or head[:2] != b"\0\0":
                raise DataError(
                    f"{path} is no idx file: it must begin with 0000, found {head.hex()!r}. Fetch "
                    "it again."
                )
            if head[2] != 8 or head[3] != dims:
                raise DataError(
                    f"{path} must hold unsigned bytes (type 8) in {dims} dimensions, found type "
                    f"{head[2]} in {head[3]}. Is it the right file?"
                )
            sizes = np.frombuffer(_exactly(file, 4 * dims), ">u4").tolist()
            if prod(sizes) > LARGEST[dims]:
                raise DataError(
                    f"{path} must hold at most {LARGEST[dims]} bytes of data, but says that it "
                    f"holds {' x '.join(map(str, sizes))}. Is it the right file?"
                )
            data = file.read(prod(sizes) + 1)  # one byte more, to detect longer files
    except (EOFError, zlib.error, OSError) as error:
        raise DataError(f"{path} is damaged or was cut off: {error}. Fetch it again.") from None
    if len(data) != prod(sizes):
        found = f"only {len(data)}" if len(data) < prod(sizes) else "more"
        raise DataError(
            f"{path} must have {prod(sizes)} bytes of data, found {found}. Fetch it again."
        )
    return np.frombuffer(data, np.uint8).reshape(sizes)


def _exactly(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise EOFError("it ends within its header")
    return data


def read_idx_set(files: Sequence[Path], classes: int = 10) -> RawSet:
    """Read the set from the files of training images and labels, and test images and labels."""
    images, labels = zip(
        *((read_idx(files[k], 3), read_idx(files[k + 1], 1)) for k in (0, 2)), strict=True
    )
    for k in (0, 1):
        if len(images[k]) != len(labels[k]):
            raise DataError(
                f"{files[2 * k]} has {len(images[k])} images, and {files[2 * k + 1].name} has "
                f"{len(labels[k])} labels. They do not belong together: fetch both again."
            )
        labels_below(files[2 * k + 1], labels[k], classes)
    if images[0].shape[1:] != images[1].shape[1:]:
        sizes = [part.shape[1:] for part in images]
        raise DataError(
            f"{files[0]} has images of {sizes[0]}, {files[2].name} of {sizes[1]}. Fetch both."
        )
    x = torch.from_numpy(np.concatenate(images)).unsqueeze(1)
    y = torch.from_numpy(np.concatenate(labels).astype(np.int64))
    return RawSet(x, y, len(images[0]), classes)


KRIZHEVSKY = "https://www.cs.toronto.edu/~kriz/"
BY_HAND = f"The authors' archive is the binary version at {KRIZHEVSKY}cifar.html."
PIXELS = 3 * 32 * 32
MOST_RECORDS = 50_000
"""Most records of a file."""


def read_cifar(train: Sequence[Path], test: Path, classes: int) -> RawSet:
    """CIFAR-10 (``classes`` 10) or CIFAR-100 (100, with coarse labels) from its binary files."""
    heads = 2 if classes == 100 else 1
    files = [*train, test]
    counts = [_records(path, heads) for path in files]
    x = np.empty((sum(counts), PIXELS), np.uint8)
    head = np.empty((sum(counts), heads), np.int64)
    start = 0
    for path, count in zip(files, counts, strict=True):
        # Memory-mapped, so that the file is never in memory twice.
        with open_bytes(path) as file:
            records = np.memmap(file, np.uint8, "r", shape=(count, heads + PIXELS))
        labels_below(path, records[:, heads - 1], classes)
        if heads == 2:
            labels_below(path, records[:, 0], 20, "coarse label")
        head[start : start + count] = records[:, :heads]
        x[start : start + count] = records[:, heads:]
        start += count
    y = torch.from_numpy(head[:, -1].copy())
    coarse = torch.from_numpy(head[:, 0].copy()) if heads == 2 else None
    return RawSet(torch.from_numpy(x).view(-1, 3, 32, 32), y, sum(counts[:-1]), classes, coarse)


def _records(path: Path, heads: int) -> int:
    size, record = path.stat().st_size, heads + PIXELS
    if size > MOST_RECORDS * record:
        raise DataError(
            f"{path} must hold at most {MOST_RECORDS} records of {record} bytes, found {size} "
            "bytes. Is it the right file?"
        )
    if size == 0 or size % record:
        raise DataError(
            f"{path} must be a whole number of records of {record} bytes, found {size} bytes. It "
            "was cut off, or is not CIFAR's binary version: fetch it again."
        )
    return size // record


def read_leaf(folder: Path) -> Iterator[tuple[Path, str, list[Any], list[Any]]]:
    """Yield (file, user, inputs, targets) for each user in the files of a folder."""
    for path in sorted(folder.glob("*.json")):
        try:
            document = parse_json(read_bytes(path))
        except (OSError, Damaged) as error:
            raise DataError(
                f"{path} cannot be read as JSON: {error}. Make it again as LEAF does."
            ) from None
        try:
            users, data = document["users"], document["user_data"]
            for user in users:
                x, y = data[user]["x"], data[user]["y"]
                if (
                    not isinstance(user, str)
                    or not isinstance(x, list)
                    or not isinstance(y, list)
                    or len(x) != len(y)
                ):
                    raise ValueError(f"user {user!r} must have as many inputs as targets")
                yield path, user, x, y
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{path} must have users and user_data as LEAF's files do: {error!r}. Make it "
                "again with LEAF's preprocessing."
            ) from None
