"""The four idx files in which MNIST and Fashion-MNIST are published.

An idx file is two zero bytes, a type (8: unsigned byte), the number of dimensions, the sizes as
big-endian 32-bit numbers, and the bytes; it may be compressed with gzip. Nothing is unpickled.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import torch

from fedflat.data.raw import Bytes, RawSet, labels_below
from fedflat.errors import DataError
from fedflat.files import open_bytes

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
