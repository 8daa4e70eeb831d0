from __future__ import annotations

import gzip
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from data.miniature import IDX, idx, write_cifar_files, write_idx_set
from fedflat.data.files.formats import read_cifar, read_idx, read_idx_set
from fedflat.data.sets.cifar import FILES, Cifar10, Cifar100, write_cifar10
from fedflat.errors import DataError

CIFAR = {"cifar10": Cifar10, "cifar100": Cifar100}


def idx_paths(folder: Path, ending: str = "") -> list[Path]:
    return [folder / f"{name}{ending}" for name in IDX]


def cifar_paths(folder: Path, name: str) -> list[Path]:
    return [folder / file for file in CIFAR[name].layout.files]


@pytest.mark.parametrize("compressed", [False, True])
def test_idx_set(tmp_path, compressed):
    arrays = write_idx_set(tmp_path, 30, 20, compressed=compressed)
    raw = read_idx_set(idx_paths(tmp_path, ".gz" if compressed else ""))
    assert raw.x.shape == (50, 1, 28, 28)
    assert raw.x.dtype == torch.uint8
    assert (raw.train, raw.classes, raw.coarse) == (30, 10, None)
    np.testing.assert_array_equal(raw.x[:, 0], np.concatenate([arrays[0], arrays[2]]))
    np.testing.assert_array_equal(raw.y, np.concatenate([arrays[1], arrays[3]]))
    assert raw.y.dtype == torch.int64


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "must begin with 0000, found ''"),
        (b"\x00\x00", "must begin with 0000"),
        (b"PK\x03\x04" + bytes(20), "must begin with 0000, found '504b0304'"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 1]) + bytes(4), "found type 13 in 1"),
        (idx(np.zeros((2, 3))), "in 1 dimensions, found type 8 in 2"),
        (idx(np.zeros(9))[:-1], "must have 9 bytes of data, found only 8"),
        (idx(np.zeros(9)) + b"x", "must have 9 bytes of data, found more"),
        (
            bytes([0, 0, 8, 1, 255, 255, 255, 255, 7]),
            "at most 60000 bytes of data, but says that it holds 4294967295",
        ),
        (bytes([0, 0, 8, 1, 0]), "cut off: it ends within its header"),
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_idx_files(tmp_path, data, message, compressed):
    path = tmp_path / ("labels.gz" if compressed else "labels")
    path.write_bytes(gzip.compress(data) if compressed else data)
    with pytest.raises(DataError, match=message):
        read_idx(path, 1)


@pytest.mark.parametrize("data", [b"not gzip", gzip.compress(idx(np.arange(5000) % 256))[:-40]])
def test_damaged_gzip(tmp_path, data):
    (tmp_path / "labels.gz").write_bytes(data)
    with pytest.raises(DataError, match="damaged or was cut off"):
        read_idx(tmp_path / "labels.gz", 1)


def test_idx_files_that_do_not_belong_together(tmp_path):
    write_idx_set(tmp_path, 30, 20)
    (tmp_path / IDX[1]).write_bytes(idx(np.zeros(29)))
    with pytest.raises(DataError, match="has 30 images, and train-labels-idx1-ubyte has 29 labels"):
        read_idx_set(idx_paths(tmp_path))
    (tmp_path / IDX[1]).write_bytes(idx(np.full(30, 10)))
    with pytest.raises(DataError, match="labels must be below 10, found 10 at example 0"):
        read_idx_set(idx_paths(tmp_path))
    write_idx_set(tmp_path, 30, 20)
    (tmp_path / IDX[2]).write_bytes(idx(np.zeros((20, 14, 14))))
    with pytest.raises(DataError, match=r"\(28, 28\).*\(14, 14\)"):
        read_idx_set(idx_paths(tmp_path))


@pytest.mark.parametrize(("name", "classes"), [("cifar10", 10), ("cifar100", 100)])
def test_cifar(tmp_path, name, classes):
    images, heads = write_cifar_files(tmp_path, name, 25)
    raw = CIFAR[name].read(cifar_paths(tmp_path, name))
    np.testing.assert_array_equal(raw.x, images)
    np.testing.assert_array_equal(raw.y, heads[:, -1])
    assert raw.x.dtype == torch.uint8
    assert raw.y.dtype == torch.int64
    assert (raw.train, raw.classes) == (len(images) - 25, classes)
    if name == "cifar100":
        assert raw.coarse is not None
        np.testing.assert_array_equal(raw.coarse, heads[:, 0])
    else:
        assert raw.coarse is None


def test_damaged_cifar(tmp_path):
    write_cifar_files(tmp_path, "cifar10", 2)
    paths = cifar_paths(tmp_path, "cifar10")
    whole = paths[2].read_bytes()
    paths[2].write_bytes(whole[:-1])
    with pytest.raises(DataError, match=r"data_batch_3.bin must be .* of 3073 bytes, found 6145"):
        read_cifar(paths[:-1], paths[-1], 10)
    paths[2].write_bytes(b"")
    with pytest.raises(DataError, match="found 0 bytes"):
        read_cifar(paths[:-1], paths[-1], 10)
    paths[2].write_bytes(whole[:3073] + b"\x0a" + whole[3074:])
    with pytest.raises(DataError, match="labels must be below 10, found 10 at example 1"):
        read_cifar(paths[:-1], paths[-1], 10)


def test_cifar100_labels_out_of_range(tmp_path):
    write_cifar_files(tmp_path, "cifar100", 2)
    paths = cifar_paths(tmp_path, "cifar100")
    whole = paths[0].read_bytes()
    paths[0].write_bytes(b"\x14" + whole[1:])
    with pytest.raises(DataError, match="coarse labels must be below 20, found 20 at example 0"):
        read_cifar(paths[:-1], paths[-1], 100)
    paths[0].write_bytes(whole[:1] + b"\x64" + whole[2:])
    with pytest.raises(DataError, match="labels must be below 100, found 100 at example 0"):
        read_cifar(paths[:-1], paths[-1], 100)


def test_written_cifar10_is_read_again(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(12, 3, 32, 32), dtype=np.uint8)
    labels = rng.integers(10, size=12).astype(np.uint8)
    write_cifar10(tmp_path / "new", images, labels)
    # The first record, byte by byte: label, red, green, blue.
    first = (tmp_path / "new" / FILES[0]).read_bytes()[:3073]
    assert first == bytes([labels[0]]) + b"".join(images[0, c].tobytes() for c in range(3))
    raw = Cifar10.read(cifar_paths(tmp_path / "new", "cifar10"))
    np.testing.assert_array_equal(raw.x, images)
    np.testing.assert_array_equal(raw.y, labels)
    assert raw.train == 10
    assert (tmp_path / "new" / "batches.meta.txt").read_text().split()[3] == "cat"
    with pytest.raises(DataError, match="six equal batches"):
        write_cifar10(tmp_path / "new", images[:-1], labels[:-1])


def test_no_more_is_read_than_a_set_can_hold(tmp_path):
    """A gigabyte of zeros that a megabyte unpacks to, and files with a hole of six gigabytes in
    them."""
    tracemalloc.start()
    try:
        promised = tmp_path / "promised.gz"
        promised.write_bytes(gzip.compress(bytes([0, 0, 8, 3]) + b"\0\1\0\0" * 3))
        with pytest.raises(
            DataError, match="at most 47040000 bytes of data, but says that it holds 65536 x 65536"
        ):
            read_idx(promised, 3)
        goes_on = tmp_path / "goes_on.gz"
        with gzip.open(goes_on, "wb", compresslevel=1) as file:
            file.write(idx(np.zeros(9)))
            for _ in range(20):
                file.write(bytes(1 << 20))
        with pytest.raises(DataError, match="must have 9 bytes of data, found more"):
            read_idx(goes_on, 1)
        hole = tmp_path / "hole"
        hole.write_bytes(idx(np.zeros(9)))
        os.truncate(hole, 6 << 30)
        with pytest.raises(DataError, match="must have 9 bytes of data, found more"):
            read_idx(hole, 1)
        for name, record in (("cifar10", 3073), ("cifar100", 3074)):
            write_cifar_files(tmp_path / name, name, 2)
            paths = cifar_paths(tmp_path / name, name)
            os.truncate(paths[0], (6 << 30) // record * record)
            with pytest.raises(
                DataError, match=f"at most 50000 records of {record} bytes, found 64"
            ):
                CIFAR[name].read(paths)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
