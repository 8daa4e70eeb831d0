"""Checkpoints on disk: what is written, what is kept, what is noticed."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load
from torch import Tensor

from fedflat.errors import RunError
from fedflat.experiments.run_folder.checkpoints import Damaged, Store, pack, write_file

NAMES = st.text("abcz/_0", min_size=1, max_size=6)
DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool, torch.uint8)


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    values = (
        torch.randn(shape, generator=torch.Generator().manual_seed(draw(st.integers(0, 99)))) * 100
    )
    tensor = values.to(draw(st.sampled_from(DTYPES)))
    turned = draw(st.booleans())
    return tensor.T if turned and tensor.dim() == 2 else tensor


GROUPS = st.dictionaries(NAMES, st.dictionaries(NAMES, tensors(), max_size=3), max_size=4)


def equal(a: dict[str, dict[str, Tensor]], b: dict[str, dict[str, Tensor]]) -> bool:
    return a.keys() == b.keys() and all(
        a[g].keys() == b[g].keys()
        and all(torch.equal(t, b[g][n]) and t.dtype == b[g][n].dtype for n, t in a[g].items())
        for g in a
    )


@settings(max_examples=40)  # each syncs a dozen files to the disk
@given(GROUPS, GROUPS, st.integers(0, 9_999_998))
def test_what_is_written_is_read(first: dict, second: dict, round: int) -> None:
    """Two checkpoints, read by the writer and by somebody else."""
    with TemporaryDirectory() as folder:
        store = Store(Path(folder) / "checkpoint")
        store.write(round, first, {"n": 1})
        store.write(round + 1, {**first, **second}, {"n": 2})
        for reader in (store, Store(Path(folder) / "checkpoint")):
            assert reader.rounds() == [round + 1, round]
            groups, record = reader.read(round)
            assert equal(groups, first)
            assert record == {"round": round, "n": 1}
            groups, record = reader.read(round + 1)
            assert equal(groups, {**first, **second})
            assert record["n"] == 2


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in folder.iterdir()}


def listed(folder: Path, round: int) -> dict[str, dict[str, Any]]:
    whole = json.loads((folder / f"round-{round:07d}.json").read_text())
    return json.loads(whole["body"])["groups"]


def test_a_group_that_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    store, still, moving = Store(tmp_path), {"x": torch.ones(3)}, torch.zeros(2)
    store.write(1, {"still": still, "moving": {"x": moving}}, {})
    before = files(tmp_path)
    name = listed(tmp_path, 1)["still"]["file"]
    # Another dictionary with the same tensor is the same group; an equal tensor that is another one
    # is not.
    store.write(2, {"still": dict(still), "moving": {"x": moving.clone()}}, {})
    after = files(tmp_path)
    assert listed(tmp_path, 2)["still"]["file"] == name
    assert after[name] == before[name]
    assert listed(tmp_path, 2)["moving"]["file"] != listed(tmp_path, 1)["moving"]["file"]
    assert len(after) == 2 + 3  # two lists; still once, moving twice


def test_nor_is_one_that_was_read(tmp_path: Path) -> None:
    Store(tmp_path).write(1, {"a": {"x": torch.ones(3)}}, {})
    store = Store(tmp_path)
    groups, _ = store.read(1)
    store.write(2, groups, {})
    assert listed(tmp_path, 2) == listed(tmp_path, 1)


def test_a_group_with_one_tensor_more_is_written(tmp_path: Path) -> None:
    store, x = Store(tmp_path), torch.ones(3)
    store.write(1, {"a": {"x": x}}, {})
    store.write(2, {"a": {"x": x, "y": torch.zeros(1)}}, {})
    assert set(Store(tmp_path).read(2)[0]["a"]) == {"x", "y"}


def test_the_last_two_are_kept_and_the_rest_swept(tmp_path: Path) -> None:
    store, still = Store(tmp_path), {"x": torch.ones(3)}
    (tmp_path / "0000001-77-1.safetensors.77.new").write_bytes(b"left by a process that was killed")
    for round in (1, 2, 3, 10):
        store.write(round, {"still": still, "moving": {"x": torch.full((2,), float(round))}}, {})
    assert store.rounds() == [10, 3]
    named = {file["file"] for round in (3, 10) for file in listed(tmp_path, round).values()}
    assert len(named) == 3
    assert set(files(tmp_path)) == {"round-0000003.json", "round-0000010.json", *named}
    for round in (3, 10):
        assert Store(tmp_path).read(round)[0]["moving"]["x"].tolist() == [round, round]


def test_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    Store(tmp_path).write(7, {"a": {"x": torch.arange(3.0)}, "b": {}}, {"metrics": 12})
    groups, record = Store(tmp_path).read(7)
    for path in sorted(tmp_path.iterdir()):
        content = path.read_bytes()
        for place in range(0, len(content)):
            path.write_bytes(
                content[:place] + bytes([content[place] ^ 0x20]) + content[place + 1 :]
            )
            try:
                found, output = Store(tmp_path).read(7)
            except Damaged:
                continue
            # White space around the list's parts may change; what it says may not.
            assert path.suffix == ".json"
            assert equal(found, groups)
            assert output == record
        path.write_bytes(content)
    assert equal(Store(tmp_path).read(7)[0], groups)


@pytest.mark.parametrize("length", [0, 1, 20])
def test_truncation_and_loss_are_noticed(tmp_path: Path, length: int) -> None:
    Store(tmp_path).write(7, {"a": {"x": torch.arange(3.0)}}, {})
    for path in sorted(tmp_path.iterdir()):
        content = path.read_bytes()
        path.write_bytes(content[:length])
        with pytest.raises(Damaged):
            Store(tmp_path).read(7)
        path.unlink()
        with pytest.raises(Damaged):
            Store(tmp_path).read(7)
        path.write_bytes(content)
    Store(tmp_path).read(7)


def test_an_older_list_that_is_damaged_does_not_hinder_writing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for round in (1, 2):
        store.write(round, {"a": {"x": torch.full((1,), float(round))}}, {})
    (tmp_path / "round-0000001.json").write_text('{"dig')
    store = Store(tmp_path)
    groups, _ = store.read(2)
    store.write(2, groups, {})
    assert store.rounds() == [2]
    assert store.read(2)[0]["a"]["x"].tolist() == [2.0]


def test_tensors_that_share_memory_are_packed_apart() -> None:
    x = torch.arange(6.0).view(2, 3)
    shared = {"a": x, "b": x, "part": x[1], "turned": x.T, "none": x[:0]}
    again = load(pack(shared))
    assert all(torch.equal(again[name], tensor) for name, tensor in shared.items())


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    """No room for more than two bytes: the file of that name stays, and no half of the new one."""
    path = tmp_path / "run.json"
    write_file(path, b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2, before[1]))
    try:
        with pytest.raises(RunError, match=r"run.json could not be written: File too large"):
            write_file(path, b"new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="could not be written: Not a directory"):
        Store(tmp_path / "file" / "checkpoint").write(1, {}, {})
