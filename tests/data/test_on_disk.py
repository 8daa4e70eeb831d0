"""Examples that are read from files when they are needed: the bits of those in memory, within a
budget."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from fedflat.data.augment import CropFlip
from fedflat.data.examples import ClientData, Examples
from fedflat.data.on_disk import Decoded, Key, OnDisk
from fedflat.errors import DataError, SettingError

EACH = 3 * 8 * 8
"""Bytes of a picture here."""
COUNT = 40


def load(path: str) -> Tensor:
    return torch.from_numpy(np.load(path))


def load_pair(path: str) -> tuple[Tensor, Tensor]:
    both = np.load(path)
    return torch.from_numpy(both[:2]), torch.from_numpy(both[2].astype(np.int64))


@pytest.fixture
def pictures() -> Tensor:
    return torch.from_numpy(
        np.random.default_rng(0).integers(256, size=(COUNT, 3, 8, 8), dtype=np.uint8)
    )


@pytest.fixture
def paths(tmp_path: Path, pictures: Tensor) -> tuple[str, ...]:
    for place, picture in enumerate(pictures):
        np.save(tmp_path / f"{place:02}.npy", picture.numpy())
    return tuple(str(tmp_path / f"{place:02}.npy") for place in range(COUNT))


def both(paths: tuple[str, ...], pictures: Tensor, memory: int) -> tuple[OnDisk, Examples]:
    targets, mean, std = torch.arange(COUNT) % 5, (0.4, 0.5, 0.6), (0.2, 0.3, 0.1)
    return (
        OnDisk(paths, load, targets, 5, mean, std, CropFlip(2), memory=memory),
        Examples(pictures, targets, 5, mean, std, CropFlip(2)),
    )


def orders(seed: int) -> Iterator[Tensor]:
    rng = torch.Generator().manual_seed(seed)
    for _ in range(4):
        yield from torch.randperm(COUNT, generator=rng).split(7)


@pytest.mark.parametrize("memory", [0, EACH - 1, 5 * EACH, 20 * EACH + 1, 10**9])
def test_the_bits_are_those_of_examples_in_memory(paths, pictures, memory):
    on_disk, in_memory = both(paths, pictures, memory)
    for augmented in (False, True):
        found, wanted = (
            list(
                ClientData(one, torch.arange(COUNT).flip(0)).batches(
                    orders(3),
                    torch.float32,
                    torch.Generator().manual_seed(1) if augmented else None,
                )
            )
            for one in (on_disk, in_memory)
        )
        assert len(found) == len(wanted) == 24
        for mine, theirs in zip(found, wanted, strict=True):
            assert torch.equal(mine.inputs, theirs.inputs)
            assert torch.equal(mine.targets, theirs.targets)


def test_examples_on_disk_behave_like_examples_in_memory(paths, pictures):
    on_disk, in_memory = both(paths, pictures, 10**6)
    assert (len(on_disk), on_disk.shape, on_disk.augments) == (
        len(in_memory),
        in_memory.shape,
        in_memory.augments,
    )
    assert not on_disk.plain().augments
    assert torch.equal(on_disk.labels, in_memory.labels)
    index = torch.tensor([3, 0, 3])
    for change in (
        lambda one: one.part(slice(10, 20)),
        lambda one: one.retargeted(torch.arange(COUNT)),
        lambda one: one.to("cpu"),
        lambda one: pickle.loads(pickle.dumps(one)),
    ):
        mine, theirs = (change(one).batch(index, torch.float64) for one in (on_disk, in_memory))
        assert torch.equal(mine.inputs, theirs.inputs)
        assert torch.equal(mine.targets, theirs.targets)


class Counting:
    """Reads numbers; writes down what was read, and can be made to wait."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.go = threading.Event()
        self.go.set()

    def __call__(self, path: str) -> Tensor:
        assert self.go.wait(30)
        self.read.append(path)
        return torch.full((EACH,), int(path), dtype=torch.uint8)


def keys(read: Counting, *places: int) -> list[Key]:
    return [Key(read, str(place), 0, 0) for place in places]


def wait_until_decoded(kept: Decoded) -> None:
    for future in list(kept._coming.values()):
        future.result()


def test_what_was_not_used_for_longest_goes_first():
    read, kept = Counting(), Decoded(3 * EACH)
    kept.take(keys(read, 0, 1, 2))
    kept.take(keys(read, 0))  # now 1 is the oldest
    kept.take(keys(read, 3))
    assert kept.held == 3 * EACH
    read.read.clear()
    assert [int(one[0]) for one in kept.take(keys(read, 0, 2, 3, 3))] == [0, 2, 3, 3]
    assert read.read == []
    kept.take(keys(read, 1))
    assert read.read == ["1"]


@pytest.mark.parametrize("room", range(12))
def test_the_budget_holds_whatever_is_asked_and_expected(room):
    read, kept = Counting(), Decoded(room * EACH)
    rng = np.random.default_rng(room)
    for _ in range(60):
        batch = rng.integers(20, size=4).tolist()
        assert [int(one[0]) for one in kept.take(keys(read, *batch))] == batch
        assert kept.held + len(kept._coming) * EACH <= kept.budget
        kept.expect(keys(read, *rng.integers(20, size=4).tolist()))
        assert kept.held + len(kept._coming) * EACH <= kept.budget


def test_the_next_batch_is_read_while_one_is_worked_on():
    read, kept = Counting(), Decoded(8 * EACH)
    kept.take(keys(read, 0, 1, 2, 3))
    read.go.clear()
    kept.expect(keys(read, 3, 4, 5, 6))  # comes back although nothing can be read
    assert len(kept._coming) == 3
    read.go.set()
    wait_until_decoded(kept)
    assert sorted(read.read) == ["0", "1", "2", "3", "4", "5", "6"]
    kept.take(keys(read, 3, 4, 5, 6))
    assert len(read.read) == 7


def test_what_was_expected_in_vain_is_kept_or_given_up():
    read, kept = Counting(), Decoded(4 * EACH)
    kept.take(keys(read, 0))
    for start in range(1, 9, 2):
        kept.expect(keys(read, start, start + 1))
        wait_until_decoded(kept)
    assert kept.held + len(kept._coming) * EACH <= kept.budget
    read.read.clear()
    kept.take(keys(read, 7, 8))
    assert read.read == []


def test_a_damaged_file_is_named_when_its_batch_is_cut(paths, pictures):
    on_disk, _ = both(paths, pictures, 10**6)
    assert on_disk.shape == (3, 8, 8)
    Path(paths[7]).write_bytes(b"not an array")
    on_disk.expect(torch.tensor([7, 8]))  # an error in a thread is not raised yet
    assert len(on_disk.batch(torch.tensor([8, 9]), torch.float32)) == 2
    for _ in range(2):
        with pytest.raises(DataError, match=r"07\.npy cannot be read \(.*\)\. Repair the file"):
            on_disk.batch(torch.tensor([6, 7]), torch.float32)
    Path(paths[5]).unlink()
    with pytest.raises(DataError, match=r"05\.npy cannot be read \(No such file or directory\)"):
        on_disk.batch(torch.tensor([5]), torch.float32)


def test_what_cannot_be_a_set_is_refused_at_once(paths, pictures):
    with pytest.raises(DataError, match=r"nowhere\.npy cannot be read \(No such file"):
        OnDisk((*paths, "nowhere.npy"), load, torch.zeros(COUNT + 1).long(), 1)
    with pytest.raises(DataError, match="a target for each of 40 files, found 3"):
        OnDisk(paths, load, torch.zeros(3).long(), 1)
    with pytest.raises(DataError, match="a target for each of 40 files, found none"):
        OnDisk(paths, load)
    with pytest.raises(SettingError, match="memory must be a whole number of at least 0"):
        OnDisk(paths, load, torch.zeros(COUNT).long(), 1, memory=-1)


def test_examples_of_another_size_are_named(paths, pictures):
    np.save(paths[3], np.zeros((3, 9, 8), np.uint8))
    on_disk, _ = both(paths, pictures, 10**6)
    with pytest.raises(
        DataError, match=r"03\.npy holds 3x9x8, and .*02\.npy 3x8x8: .* must be alike"
    ):
        on_disk.batch(torch.tensor([2, 3]), torch.float32)


def test_a_file_that_changed_is_read_again_by_the_next_opening(paths, pictures):
    first, _ = both(paths, pictures, 10**6)
    first.batch(torch.tensor([1]), torch.float32)
    np.save(paths[1], np.zeros((3, 8, 8), np.uint8))
    second, _ = both(paths, pictures, 10**6)
    black = second.plain().batch(torch.tensor([1]), torch.float64).inputs[0, 0]
    torch.testing.assert_close(black, torch.full((8, 8), -0.4 / 0.2, dtype=torch.float64))


def test_targets_may_be_in_the_files_too(tmp_path):
    arrays = np.random.default_rng(1).integers(5, size=(6, 3, 4, 4)).astype(np.uint8)
    paths = tuple(str(tmp_path / f"{place}.npy") for place in range(6))
    for path, array in zip(paths, arrays, strict=True):
        np.save(path, array)
    on_disk = OnDisk(paths, load_pair, classes=5, pairs=True)
    assert on_disk.shape == (2, 4, 4)
    batch = on_disk.part(slice(2, 6)).batch(torch.tensor([1, 0]), torch.float64)
    np.testing.assert_array_equal(batch.targets, arrays[[3, 2], 2])
    np.testing.assert_allclose(batch.inputs, arrays[[3, 2], :2] / 255)
    with pytest.raises(SettingError, match="do not have one class each"):
        on_disk.labels  # noqa: B018


def test_other_files_are_other_data(paths, pictures):
    def identity(one: OnDisk) -> list[object]:
        return [trace.tolist() if isinstance(trace, Tensor) else trace for trace in one.traces()]

    on_disk, _ = both(paths, pictures, 10**6)
    assert identity(on_disk) == identity(both(paths, pictures, 5)[0])
    assert identity(on_disk) != identity(on_disk.part(slice(1, None)))
    np.save(paths[3], np.zeros((3, 9, 8), np.uint8))
    assert identity(on_disk) != identity(both(paths, pictures, 10**6)[0])
