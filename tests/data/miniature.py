"""Makers of miniature data files in the true formats."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from fedflat.data.files.formats import IDX
from fedflat.data.sets.cifar import Cifar10, Cifar100


def idx(array: np.ndarray) -> bytes:
    """An idx file of bytes, written from its description: magic, big-endian sizes, data."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


def write_idx_set(
    folder: Path, train: int, test: int, *, compressed: bool = False
) -> list[np.ndarray]:
    """Four idx files with random 28x28 images and labels that run through 0..9; the arrays
    written."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    arrays = []
    for count in (train, test):
        arrays += [rng.integers(256, size=(count, 28, 28)), np.arange(count) % 10]
    for name, array in zip(IDX, arrays, strict=True):
        data = idx(array)
        path = folder / (f"{name}.gz" if compressed else name)
        path.write_bytes(gzip.compress(data) if compressed else data)
    return arrays


def write_cifar_files(folder: Path, name: str, per_file: int) -> tuple[np.ndarray, np.ndarray]:
    """CIFAR's binary files record by record; the images (n, 3, 32, 32) and label bytes written."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    images, heads = [], []
    for k, file in enumerate((Cifar10 if name == "cifar10" else Cifar100).layout.files):
        data = b""
        for i in range(per_file):
            image = rng.integers(256, size=(3, 32, 32), dtype=np.uint8)
            label = (k * per_file + i) % (10 if name == "cifar10" else 100)
            head = [label] if name == "cifar10" else [label // 5, label]
            red, green, blue = (channel.tobytes() for channel in image)
            data += bytes(head) + red + green + blue
            images.append(image)
            heads.append(head)
        (folder / file).write_bytes(data)
    return np.stack(images), np.array(heads)
