"""CIFAR's binary files.

A record is one label byte (CIFAR-10) or a coarse and a fine one (CIFAR-100), then 1024 red, 1024
green and 1024 blue bytes. Nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from fedflat.data.raw import RawSet, labels_below
from fedflat.errors import DataError
from fedflat.files import open_bytes

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
