"""Client states count only after the round is done; beyond the budget they are on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflat.client.piece import ClientState
from fedflat.errors import RunError
from fedflat.execution.client_states import FILE, ClientStates, usual_budget
from fedflat.files import Damaged

ONE = 12
"""Bytes of what `remembering` makes."""


def remembering(value: float) -> ClientState:
    return {"dual": {"sigma": torch.full((3,), float(value))}}


def value(state: ClientState) -> float | None:
    return float(state["dual"]["sigma"][0]) if state else None


def states_with(
    kept: dict[int, float], budget: int | None = None, folder: Path | None = None
) -> ClientStates:
    states = ClientStates(budget, folder)
    for client, number in kept.items():
        states.stage(client, remembering(number))
    states.commit()
    return states


def values(states: ClientStates) -> dict[int, float | None]:
    return {client: value(state) for client, state in states.by_client.items()}


BUDGETS = pytest.mark.parametrize("budget", [None, 0, ONE, 2 * ONE])


@BUDGETS
def test_a_round_that_is_done_is_kept(budget: int | None) -> None:
    states = states_with({1: 1}, budget)
    states.stage(1, remembering(2))
    states.stage(2, remembering(3))
    assert states.by_client.keys() == {1}
    assert value(states.state(1)) == 2  # a second exchange of the round sees the first
    assert values(states) == {1: 1}
    states.stage(1, remembering(4))
    states.commit()
    assert values(states) == {1: 4, 2: 3}


@BUDGETS
def test_a_round_that_is_broken_off_leaves_nothing(budget: int | None) -> None:
    states = states_with({1: 1}, budget)
    states.stage(1, remembering(2))
    states.stage(2, remembering(3))
    states.discard()
    states.commit()
    assert values(states) == {1: 1}
    assert value(states.state(1)) == 1


def test_only_clients_that_remember_cost_anything() -> None:
    states = ClientStates()
    states.stage(1, {})
    states.commit()
    assert states.by_client == {}
    assert states.state(1) == states.state(99) == {}
    assert states.nbytes == 0
    states.stage(2, remembering(1))
    assert states.nbytes == 0
    states.commit()
    assert states.nbytes == states.in_ram == ONE


def test_a_memory_comes_back_as_it_was() -> None:
    """Names, types, shapes and every bit, of tensors that share their storage too."""
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    state: ClientState = {
        "a": {
            "x": x,
            "turned": x.T,
            "part": x[1],
            "n": torch.tensor(7),
            "none": x[:0],
            "path/to": x.double(),
        },
        "b": {"mask": x > 0, "nan": torch.tensor([float("nan"), -0.0])},
    }
    states = ClientStates(budget=0)
    states.stage(3, state)
    states.commit()
    assert states.in_ram == 0
    again = states.state(3)
    assert {key: set(named) for key, named in again.items()} == {
        key: set(named) for key, named in state.items()
    }
    for key, named in state.items():
        for name, tensor in named.items():
            found = again[key][name]
            assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
            assert found.contiguous().numpy().tobytes() == tensor.contiguous().numpy().tobytes()


def test_a_part_of_something_larger_does_not_keep_it_alive() -> None:
    """As when many clients are trained in one tensor, a row each."""
    rows = torch.arange(12.0).view(4, 3)
    states = ClientStates()
    states.stage(2, {"dual": {"sigma": rows[2]}})
    states.commit()
    mine = states.state(2)["dual"]["sigma"]
    assert mine.tolist() == [6, 7, 8]
    assert mine.untyped_storage().nbytes() == ONE


def test_states_unused_for_longest_are_on_disk() -> None:
    states = states_with({1: 1, 2: 2, 3: 3}, 2 * ONE)
    assert states.in_ram == 2 * ONE
    states.state(2)
    three = states.state(3)["dual"]["sigma"]
    states.stage(4, remembering(4))  # 2 goes
    assert states.state(3)["dual"]["sigma"] is three
    assert states.in_ram == 2 * ONE
    states.state(1)["dual"]["sigma"]  # 4 goes, though it is only staged
    states.discard()
    assert values(states) == {1: 1, 2: 2, 3: 3}


def test_what_was_handed_out_stays_as_it_is() -> None:
    states = states_with({1: 1, 2: 2}, ONE)
    mine = states.state(1)
    for number in range(5):
        states.stage(1, remembering(10 + number))
        states.state(2)
        states.commit()
    assert value(mine) == 1


def test_the_file_grows_with_the_clients_and_not_with_the_rounds() -> None:
    states = states_with({k: k for k in range(5)}, 0)
    length = states._spill.nbytes
    for number in range(20):
        for client in range(5):
            states.stage(client, remembering(number))
        if number % 2:
            states.commit()
        else:
            states.discard()
    assert states._spill.nbytes <= 2 * length  # those of the round before, and those of this one


def test_a_state_that_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    states = states_with({1: 1, 2: 2}, None, tmp_path)
    first = states.table(1)
    states.stage(1, {"dual": dict(states.state(1)["dual"])})
    states.stage(2, remembering(2))
    states.commit()
    second = states.table(2)
    moved = dict(
        zip(second["client"].tolist(), (second["offset"] != first["offset"]).tolist(), strict=True)
    )
    assert moved == {1: False, 2: True}


def test_tables_are_resumed_without_reading_into_memory(tmp_path: Path) -> None:
    states = states_with({1: 1, 5: 5}, ONE, tmp_path)
    tables = {1: states.table(1)}
    states.stage(5, remembering(6))
    states.stage(7, remembering(7))
    states.commit()
    tables[2] = states.table(2)
    states.release(1)
    states.stage(1, remembering(99))  # after the checkpoint, and lost
    states.commit()
    again = ClientStates(ONE, tmp_path)
    again.restore(tables)
    assert again.in_ram == 0
    assert again.nbytes == 3 * ONE
    assert values(again) == {1: 1, 5: 6, 7: 7}
    older = ClientStates(ONE, tmp_path)
    older.restore({1: tables[1]})
    assert values(older) == {1: 1, 5: 5}


def test_a_checkpoint_stays_whole_until_it_is_gone(tmp_path: Path) -> None:
    states = states_with({1: 1}, 0, tmp_path)
    tables = {0: states.table(0)}
    for round in range(1, 8):
        states.stage(1, remembering(10 * round))
        states.stage(round + 1, remembering(round))
        states.commit()
        tables[round] = states.table(round)
        states.release(round - 1)
        for kept in (round - 1, round):
            copy = tmp_path / f"{round}-{kept}"
            copy.mkdir()
            (copy / FILE).write_bytes((tmp_path / FILE).read_bytes())
            reader = ClientStates(0, copy)
            reader.restore({kept: tables[kept]})
            assert value(reader.state(1)) == (10 * kept or 1)
    assert states._spill.nbytes < 2.0 * sum(tables[7]["length"].tolist())


def test_an_empty_table_and_no_file_for_those_who_remember_nothing(tmp_path: Path) -> None:
    states = ClientStates(folder=tmp_path)
    assert states.table(3) == {}
    states.release(3)
    states.restore({3: {}})
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize("damage", ["flip", "cut", "lost"])
def test_damage_is_noticed_and_changes_nothing(tmp_path: Path, damage: str) -> None:
    states = states_with({1: 1, 2: 2}, 0, tmp_path)
    table = states.table(1)
    path = tmp_path / FILE
    content = path.read_bytes()
    path.write_bytes({"flip": content[:-1] + b"?", "cut": content[:-1], "lost": b""}[damage])
    again = ClientStates(0, tmp_path)
    with pytest.raises(Damaged, match="a client's state"):
        again.restore({1: table})
    assert again.by_client == {}
    again.stage(3, remembering(3))
    again.commit()
    assert values(again) == {3: 3}


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"file could not be written: .* Check the folder"):
        states_with({1: 1}, 0, tmp_path / "file")


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device that is always full, in place of the file: a link to it would not be followed."""
    monkeypatch.setattr(
        "fedflat.execution.spill.open_file", lambda path, flags: os.open("/dev/full", flags)
    )
    states = ClientStates(0, tmp_path)
    with pytest.raises(RunError, match=r"the disk is full: .*clients.bin could not be written"):
        states.stage(1, remembering(1))


def test_a_temporary_file_leaves_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    states = states_with({1: 1}, 0)
    assert value(states.state(1)) == 1
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(RunError, match=r"nowhere could not be written: No such file"):
        states_with({1: 1}, 0)


def test_the_usual_budget_is_a_part_of_the_machine() -> None:
    assert 256 * 10**6 <= usual_budget() == ClientStates().budget < 10**15


ACTS = st.one_of(
    st.tuples(st.just("stage"), st.integers(0, 4), st.integers(1, 3)),
    st.tuples(st.sampled_from(["keep", "drop", "checkpoint", "resume"]), st.just(0), st.just(0)),
    st.tuples(st.just("ask"), st.integers(0, 4), st.just(0)),
)


@settings(max_examples=60)
@given(st.lists(ACTS, max_size=40), st.integers(0, 40))
def test_whatever_happens_it_is_like_a_dictionary(
    tmp_path_factory, acts: list, budget: int
) -> None:
    """Memories of one to three numbers; a crash may come at any time, and goes back to the last
    checkpoint."""
    folder = tmp_path_factory.mktemp("states")
    states, kept, staged = ClientStates(budget, folder), {}, {}
    tables: dict[int, dict] = {}
    saved: dict[int, dict[int, list[float]]] = {}
    for number, (what, client, size) in enumerate(acts, 1):
        if what == "stage":
            staged[client] = [float(number)] * size
            states.stage(client, {"a": {"x": torch.tensor(staged[client])}})
        elif what == "keep":
            states.commit()
            kept, staged = kept | staged, {}
        elif what == "drop":
            states.discard()
            staged = {}
        elif what == "checkpoint":
            tables[number], saved[number] = states.table(number), dict(kept)
            for gone in sorted(tables)[:-2]:
                del tables[gone]
            states.release(min(tables))
        elif what == "resume" and tables:
            states, kept, staged = ClientStates(budget, folder), dict(saved[max(tables)]), {}
            states.restore(tables)
        found = states.state(client)
        assert (found["a"]["x"].tolist() if found else None) == (
            staged.get(client) or kept.get(client)
        )
        assert states.in_ram <= budget
    assert {k: m["a"]["x"].tolist() for k, m in states.by_client.items()} == kept
