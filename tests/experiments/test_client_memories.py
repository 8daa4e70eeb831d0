"""Memories that live with the clients: an executor decides it, and what is committed is the
same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch

from experiments.small import begin, go_on, timeless
from fedflat.client.piece import ClientState
from fedflat.client.training import ClientJob, Request, run_client
from fedflat.data.federation import Federation
from fedflat.execution.client_pool import ClientPool, PoolOutcome, Source, threads
from fedflat.execution.client_states import ClientStates
from fedflat.execution.in_process import InProcess
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from test_every_method import EVERY, experiment, said

REMEMBERING = [
    text
    for text in EVERY
    if said(text).cost.client_state or "all_clients" in text or "fedbn" in text
]


@dataclass
class AtHome:
    """Clients that keep what they remember; a letter's changes are staged under its id until the
    round is done."""

    kept: dict[int, ClientState] = field(default_factory=dict)
    staged: dict[str, tuple[int, ClientState]] = field(default_factory=dict)
    after: dict[int, dict[int, ClientState]] = field(default_factory=dict)
    """What counted when so many rounds were done."""
    round: int = 0

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[ClientPool]:
        self.job, self.fed = job, fed
        with threads(1):
            yield self

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        for request in requests:
            assert request.state == {}
            mine = replace(request, state=self.memory(request.client))
            reply, memory = run_client(self.job, mine, self.fed.data(request.client))
            if memory and request.broadcast.commit and request.broadcast.instruction.commits:
                self.staged[request.id] = request.client, memory
            yield reply, {}

    def memory(self, client: int) -> ClientState:
        staged = [memory for whose, memory in self.staged.values() if whose == client]
        return staged[-1] if staged else self.kept.get(client, {})

    def has_state(self, client: int) -> bool:
        return bool(self.kept.get(client))

    def restore(self, round: int) -> None:
        self.staged, self.kept, self.round = (
            {},
            self.after.get(round, self.kept if round else {}),
            round,
        )

    def commit(self, requests: Sequence[str]) -> None:
        self.kept = self.kept | dict(
            self.staged[request] for request in requests if request in self.staged
        )
        self.staged, self.round = {}, self.round + 1
        self.after[self.round] = self.kept

    def discard(self) -> None:
        self.staged = {}


class Looking(RunFolder):
    """Notes what clients remember by the server's account, round by round."""

    def __init__(self) -> None:
        super().__init__()
        self.memories: list[dict[int, ClientState]] = []

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        kept = run.clients.kept
        pieces = {
            k: {key: m for key, m in kept[k].items() if not key.startswith("shadow:")} for k in kept
        }
        self.memories.append({client: memory for client, memory in pieces.items() if memory})


def same(a: ClientState, b: ClientState) -> bool:
    return a.keys() == b.keys() and all(
        a[key].keys() == b[key].keys()
        and all(torch.equal(a[key][name], b[key][name]) for name in a[key])
        for key in a
    )


@pytest.mark.parametrize("text", REMEMBERING)
def test_the_same_bits_and_the_same_memories(text: str) -> None:
    exp, home, run_folder = replace(experiment(said(text)), rounds=3), AtHome(), Looking()
    here, there = (
        train(exp, executor=InProcess(1), run_folder=run_folder),
        train(exp, executor=home),
    )
    assert torch.equal(here.model.params, there.model.params)
    assert torch.equal(here.model.buffers, there.model.buffers)
    assert timeless(here.rows) == timeless(there.rows)
    expected = run_folder.memories[-1]
    assert expected.keys() == home.kept.keys()
    assert all(same(expected[client], home.kept[client]) for client in expected)


def test_a_run_that_goes_on_takes_them_up_where_its_checkpoint_stands(tmp_path: Path) -> None:
    """The clients have gone on to round 3 when the server is lost, whose last checkpoint is of
    round 2."""
    exp, home = experiment(said("feddyn(alpha=0.1) + all_clients()")), AtHome()
    whole = begin(exp, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        begin(exp, tmp_path / "cut", stop=2, executor=home)
    home.commit([])
    home.kept = {client: {"dual": {"y": torch.full((9,), torch.nan)}} for client in range(4)}
    cut = go_on(exp, tmp_path / "cut", executor=home)
    assert torch.equal(whole.model.params, cut.model.params)


def test_a_round_that_is_broken_off_leaves_nothing() -> None:
    home, states = AtHome(), ClientStates()
    states.use_pool(home, 0)
    one = {"dual": {"y": torch.ones(2)}}
    home.staged = {"0/1/3": (3, one), "0/1/4": (4, one)}
    states.accept(["0/1/3"], [3])
    assert (3 in states, 4 in states) == (True, False)
    states.discard()
    assert 3 not in states
    home.staged = {"0/1/3": (3, one), "0/1/4": (4, one)}
    states.accept(["0/1/4"], [4])
    states.commit()
    assert (3 in states, 4 in states) == (False, True)
    assert home.kept == {4: one}
