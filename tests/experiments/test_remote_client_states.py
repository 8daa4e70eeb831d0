"""Memories that live with the clients: an executor decides it, and what is committed is the
same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from experiments.small import begin, go_on, timeless
from fedflat.client.piece import ClientState
from fedflat.client.state_store import StateStore
from fedflat.errors import FedflatError, RunError
from fedflat.execution.client_states import ClientStates
from fedflat.execution.in_process import InProcess
from fedflat.execution.loopback import StatefulLoopbackPool
from fedflat.execution.state_ids import StateIds
from fedflat.experiments.job_spec import Loopback
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from fedflat.files import Damaged
from test_every_method import EVERY, method_of
from test_every_method_on_the_wire import _registered, experiment_of

__all__ = ["_registered"]  # a fixture

REMEMBERING = [
    text
    for text in EVERY
    if method_of(text).cost.client_state or "all_clients" in text or "fedbn" in text
]


class RecordingRunFolder(RunFolder):
    """Notes what clients remember by the server's account, round by round."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[dict[int, ClientState]] = []

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        kept = run.clients.by_client
        pieces = {
            k: {key: m for key, m in kept[k].items() if not key.startswith("average:")}
            for k in kept
        }
        self.states.append({client: memory for client, memory in pieces.items() if memory})


def same(a: ClientState, b: ClientState) -> bool:
    return a.keys() == b.keys() and all(
        a[key].keys() == b[key].keys()
        and all(torch.equal(a[key][name], b[key][name]) for name in a[key])
        for key in a
    )


@pytest.fixture
def ids(monkeypatch: pytest.MonkeyPatch) -> list[StateIds]:
    """The ids that pools use."""
    used: list[StateIds] = []
    monkeypatch.setattr(
        StatefulLoopbackPool,
        "use_states",
        lambda pool, ids: (used.append(ids), setattr(pool, "ids", ids)),
    )
    return used


@pytest.mark.parametrize("text", REMEMBERING)
def test_the_same_bits_and_the_same_states(text: str, tmp_path: Path, ids: list[StateIds]) -> None:
    exp, run_folder = replace(experiment_of(text), rounds=3), RecordingRunFolder()
    here, there = (
        train(exp, executor=InProcess(1), run_folder=run_folder),
        train(exp, executor=Loopback(str(tmp_path))),
    )
    assert torch.equal(here.model.params, there.model.params)
    assert torch.equal(here.model.buffers, there.model.buffers)
    assert timeless(here.rows) == timeless(there.rows)
    expected = run_folder.states[-1]
    names = {client: ids[-1].current(client) for client in range(exp.on.open(0).population)}
    assert expected.keys() == {client for client, name in names.items() if name}
    for client, memory in expected.items():
        store = StateStore(tmp_path / f"client-{client}")
        assert same(memory, store.get(names[client]))
        assert len(list(store.folder.iterdir())) <= 2  # the one before it, and its own


REPEATED = "feddyn(alpha=0.1) + all_clients()"


def test_a_run_that_is_resumed_names_the_states_of_its_checkpoint(tmp_path: Path) -> None:
    """The clients have gone on to round 3 when the server is lost, whose last checkpoint is of
    round 2."""
    exp, home = experiment_of(REPEATED), Loopback(str(tmp_path / "home"))
    exp = replace(exp, rounds=4)
    whole = begin(exp, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "cut", stop=2, executor=home)
    folders = list((tmp_path / "home").iterdir())
    assert folders
    for folder in folders:
        client = folder.name.removeprefix("client-")
        StateStore(folder).put(f"2/1/{client}", {"dual": {"y": torch.full((9,), torch.nan)}})
    cut = go_on(exp, tmp_path / "cut", executor=home)
    assert torch.equal(whole.model.params, cut.model.params)


def test_a_state_that_was_lost_is_missed(tmp_path: Path) -> None:
    exp, home = replace(experiment_of(REPEATED), rounds=3), Loopback(str(tmp_path / "home"))
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "cut", stop=2, executor=home)
    for folder in (tmp_path / "home").iterdir():
        StateStore(folder).keep_only([])
    with pytest.raises(FedflatError, match=r"client-\d+ has no state with the id '\d/\d/\d+'"):
        go_on(exp, tmp_path / "cut", executor=home)


def test_another_executor_cannot_go_on_without_the_states(tmp_path: Path) -> None:
    exp, home = replace(experiment_of(REPEATED), rounds=3), Loopback(str(tmp_path / "home"))
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "cut", stop=2, executor=home)
    with pytest.raises(RunError, match="clients of this run keep their states themselves"):
        go_on(exp, tmp_path / "cut", executor=InProcess(1))


def test_clients_take_over_the_states_of_a_server(tmp_path: Path) -> None:
    exp = replace(experiment_of(REPEATED), rounds=4)
    whole = begin(exp, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "cut", stop=2)
    cut = go_on(exp, tmp_path / "cut", executor=Loopback(str(tmp_path / "home")))
    assert torch.equal(whole.model.params, cut.model.params)


class KeepingPool:
    """A pool whose clients keep their states."""

    def use_states(self, ids: StateIds) -> None:
        self.ids = ids


def kept_by_clients() -> ClientStates:
    states = ClientStates()
    states.use_pool(KeepingPool())
    return states


def test_a_round_that_is_broken_off_leaves_nothing() -> None:
    states = kept_by_clients()
    for request in ("0/1/3", "0/1/4"):
        states.ids.made(request)
    states.accept(["0/1/3"], [3])
    assert (3 in states, 4 in states) == (True, False)
    states.discard()
    assert 3 not in states
    for request in ("0/1/3", "0/1/4"):
        states.ids.made(request)
    states.accept(["0/1/4", "0/1/5"], [4, 5])
    states.commit()
    assert [client in states for client in (3, 4, 5)] == [False, True, False]
    assert states.ids.current(4) == "0/1/4"


def test_what_checkpoints_name_is_kept() -> None:
    states = kept_by_clients()
    tables = {}
    for round in range(1, 4):
        states.ids.made(f"{round}/1/3")
        states.accept([f"{round}/1/3"], [3])
        states.commit()
        tables[round] = states.table(round)
    assert states.ids.keep(3) == ("1/1/3", "2/1/3", "3/1/3")
    states.release(2)
    assert states.ids.keep(3) == ("2/1/3", "3/1/3")
    again = ClientStates()
    again.restore({round: tables[round] for round in (1, 2)})
    assert (again.ids.current(3), again.ids.keep(3)) == ("2/1/3", ("1/1/3", "2/1/3"))


@pytest.mark.parametrize("wrong", [b"[]", b"{", b'{"3": 4}', b'{"x": "1"}'])
def test_damaged_ids_are_noticed(wrong: bytes) -> None:
    table = {"state_ids": torch.frombuffer(bytearray(wrong), dtype=torch.uint8)}
    with pytest.raises(Damaged):
        ClientStates().restore({1: table})
