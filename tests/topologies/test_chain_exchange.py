"""Chains that proceed independently give the same bits as chains that wait for each other."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from experiments.small import experiment, timeless
from fedflat.client.local import LocalTraining
from fedflat.client.training import Request
from fedflat.core.failures import ClientFailure
from fedflat.errors import FedflatError
from fedflat.execution.client_pool import PoolOutcome, Then, WorkLeft
from fedflat.execution.in_process import InProcess
from fedflat.execution.workers import Workers
from fedflat.experiments.prepare import prepare
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.train import train
from fedflat.server.client_selection import ClientSampler

CHOICES: dict[str, Callable[..., int]] = {"first": min, "last": max}


class Within:
    """An executor that has another one's client pool."""

    @contextmanager
    def open(self, *words: Any) -> Any:
        with InProcess(threads=1).open(*words) as pool:
            self.pool = pool
            yield self


@dataclass
class Ahead(Within):
    """Goes along one chain to its end before it begins with another, the first or the last one."""

    choice: str = "first"
    absent: int | None = None
    order: list[int] = field(default_factory=list)
    """The clients that were asked."""

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        yield from self.pool.run(requests)

    def run_chains(
        self, requests: Sequence[Request], then: Then, left: WorkLeft
    ) -> Iterator[PoolOutcome]:
        waiting: dict[int, Request] = dict(enumerate(requests))
        done: dict[int, PoolOutcome] = {}
        made = [0] * len(requests)
        while waiting:
            at = CHOICES[self.choice](waiting)
            before = left(at, made[at])
            made[at] += 1
            assert before > left(at, made[at]) >= 0
            request = waiting.pop(at)
            self.order.append(request.client)
            away = request.client == self.absent
            [outcome] = (
                [ClientFailure(request.client, request.id, "crashed")]
                if away
                else self.pool.run([request])
            )
            following = then(at, outcome)
            if following is None:
                done[at] = outcome
            else:
                waiting[at] = following
        yield from (done[at] for at in sorted(done))


def same(one: Result, other: Result) -> None:
    assert one.model is not None
    assert other.model is not None
    assert torch.equal(one.model.params, other.model.params)
    assert timeless(one.rows) == timeless(other.rows)


UNEQUAL = "given_groups([[0, 3, 4], [1], [2]])"


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize(
    "method", [f"fedseq({UNEQUAL}) + sam(0.1) + fedavgm() + wima(2)", "fedseq(2, passes=3)"]
)
def test_results_do_not_depend_on_which_chain_continues_first(method: str, choice: str) -> None:
    exp = experiment(method, sampler=ClientSampler(clients=5))
    ahead = Ahead(choice=choice)
    same(train(exp, executor=ahead), train(exp, executor=InProcess(threads=1)))
    assert len(ahead.order) == sum(map(len, _visits(exp)))


def _visits(exp: Any) -> list[list[int]]:
    setup = prepare(exp)
    return [
        [client for chain in setup.server.select(t)["server"] for client in chain]
        for t in range(exp.rounds)
    ]


class Noting(RunFolder):
    """Keeps who was missing."""

    def __init__(self) -> None:
        super().__init__()
        self.missing: list[Any] = []

    def note(self, seen: Any, row: Any) -> None:
        self.missing += seen.get("missing", [])
        super().note(seen, row)


def test_a_failed_client_ends_its_own_chain_only() -> None:
    """Clients after it in the chain are not asked, the others are, and the failure is recorded."""
    exp = experiment(
        f"fedseq({UNEQUAL})", rounds=1, min_replies=1, sampler=ClientSampler(clients=5)
    )
    [first, *_] = [chain for chain in prepare(exp).server.select(0)["server"] if len(chain) == 3]
    ahead, run_folder = Ahead(absent=first[1]), Noting()
    result = train(exp, executor=ahead, run_folder=run_folder)
    assert sorted(ahead.order) == sorted({1, 2, *first[:2]})
    assert [one["client"] for one in run_folder.missing] == [first[1]]
    assert result.ledger.missing == 1


def test_a_run_that_fails_makes_no_more_requests() -> None:
    """The last request of the last chain fails first: the chains before it are not waited for."""
    exp = experiment(f"fedseq({UNEQUAL})", rounds=1, sampler=ClientSampler(cohorts=[[0, 1, 2]]))
    [*_, last] = prepare(exp).server.select(0)["server"]
    ahead = Ahead(choice="last", absent=last[-1])
    with pytest.raises(FedflatError, match=f"client {last[-1]} crashed"):
        train(exp, executor=ahead)
    assert tuple(ahead.order) == last


class Fragile(torch.nn.Linear):
    """A linear model whose process is killed where it is trained on batches of one size."""

    def __init__(self, size: int) -> None:
        super().__init__(4, 3)
        self.size = size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and len(x) == self.size:
            signal.raise_signal(signal.SIGKILL)
        return super().forward(x)


@pytest.mark.slow
def test_workers_that_die_in_chains_are_replaced() -> None:
    """Clients have 6, 9, 12, 7 and 8 examples. With one worker, no chain goes on before the new one
    is there."""
    settings = {"model": Fragile(size=7), "local": LocalTraining(batch_size=20), "min_replies": 1}
    exp = experiment(f"fedseq({UNEQUAL})", rounds=2, sampler=ClientSampler(clients=5), **settings)
    run_folder = Noting()
    result = train(exp, executor=Workers(1), run_folder=run_folder)
    assert result.status == "done"
    assert [one["client"] for one in run_folder.missing] == [3, 3]
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_workers_follow_chains() -> None:
    exp = experiment(f"fedseq({UNEQUAL}, passes=2) + mixup()", sampler=ClientSampler(clients=5))
    same(train(exp, executor=Workers(2)), train(exp, executor=InProcess(threads=1)))


BANK = "bank(given_groups([[0, 3, 4], [1, 2]]), R=2)"
TWICE = "naive_fedgloss(0.1, admm=False)"


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("method", ["fedsam(0.1) + fedadam(lr=0.1) + wima(2)", "fedavg", TWICE])
@pytest.mark.parametrize("clock", [None, "devices(speed=lognormal(50, 1))"])
def test_models_of_a_bank_ask_at_once(method: str, choice: str, clock: str | None) -> None:
    """A step that asks once is made again when the answer is there; one that asks twice waits for
    its turn."""
    exp = experiment(method, topology=BANK, clock=clock)
    ahead = Ahead(choice=choice)
    same(train(exp, executor=ahead), train(exp, executor=InProcess(threads=1)))
    setup = prepare(exp)
    [first], [second] = setup.server.select(0).values()
    at_once = (*second, *first) if choice == "last" else (*first, *second)
    assert tuple(ahead.order[:5]) == (at_once if method != TWICE else (*first, *first, *second)[:5])
    assert setup.exp.topology.parallel_clients(setup.server.population) == 2


@pytest.mark.slow
def test_workers_make_the_requests_of_a_bank() -> None:
    exp = experiment("fedavgm() + mixup()", topology=BANK)
    same(train(exp, executor=Workers(2)), train(exp, executor=InProcess(threads=1)))
