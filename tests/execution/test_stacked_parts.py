"""Stacks in several processes: a stated partition of the cohort, whichever worker is faster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
import torch

import fedflat as ff
from fedflat.client.request_columns import RequestColumns
from fedflat.client.training import ClientJob, Request
from fedflat.core.failures import ClientFailure
from fedflat.core.messages import Broadcast
from fedflat.data.federation import Federation
from fedflat.errors import SettingError
from fedflat.execution.client_pool import ClientPool, PoolOutcome, Source, threads
from fedflat.execution.stacked import PartPool, Stacked, part_size
from fedflat.execution.stacked_pool import StackedPool
from fedflat.experiments.api import experiment
from fedflat.experiments.train import train

BROADCAST = Broadcast(0, torch.zeros(2), torch.zeros(0), 0.1)


class Recorded:
    """In place of worker processes: keeps the parts and fails every request of them."""

    capacity = 2

    def __init__(self) -> None:
        self.parts: list[list[int]] = []

    def run_parts(self, parts: Iterable[RequestColumns]) -> Iterator[PoolOutcome]:
        for part in parts:
            self.parts.append(list(part.clients))
            yield from (ClientFailure(one.client, one.id, "crashed") for one in part)


def parts(clients: int, most: int, *, other: frozenset[int] = frozenset()) -> list[list[int]]:
    """The parts of a cohort; some clients get another broadcast."""
    workers = Recorded()
    mine, theirs = BROADCAST, replace(BROADCAST, round=1)
    pool = PartPool(workers, most)  # type: ignore[arg-type]
    requests = [
        Request(client, theirs if client in other else mine, {}, f"{client}")
        for client in range(clients)
    ]
    assert [one.client for one in pool.run(requests)] == list(range(clients))  # type: ignore[union-attr]
    return workers.parts


def test_consecutive_parts_of_nearly_equal_size() -> None:
    assert parts(6, 100) == [[0, 1, 2], [3, 4, 5]]
    assert parts(7, 100) == [[0, 1, 2, 3], [4, 5, 6]]
    assert parts(1, 100) == [[0]]
    assert parts(7, 2) == [[0, 1], [2, 3], [4, 5], [6]]


def test_a_part_has_one_broadcast() -> None:
    assert parts(6, 100, other=frozenset({1})) == [[0], [1], [2, 3, 4], [5]]


@pytest.mark.parametrize("workers", [0, 1.5, "two"])
def test_workers_that_are_no_number(workers: object) -> None:
    with pytest.raises(SettingError, match="workers must be a whole number"):
        Stacked(workers=workers)  # type: ignore[arg-type]


class _PartsInTurn(ClientPool):
    """The same partition in one process: each part is stacked by itself."""

    def __init__(self, job: ClientJob, fed: Federation) -> None:
        self.pool = StackedPool(job, fed)

    def submit(self, request: Request) -> None:
        raise AssertionError("not used")

    def collect(self) -> Sequence[PoolOutcome]:
        raise AssertionError("not used")

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        size = part_size(len(requests), 2, self.pool.capacity)
        for first in range(0, len(requests), size):
            part = [requests[i] for i in range(first, min(first + size, len(requests)))]
            yield from self.pool.run(part)


@dataclass(frozen=True)
class InTurn:
    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[ClientPool]:
        with threads(1):
            yield _PartsInTurn(job, fed)


@pytest.mark.slow
def test_two_processes_have_the_bits_of_the_stated_parts() -> None:
    exp = experiment(
        ff.scaffold() + ff.sam(0.05),
        "digits(lda(1), clients=30)",
        rounds=4,
        clients_per_round=13,
        model="mlp([8])",
    )
    expected = train(exp, executor=InTurn())
    found = train(exp, executor=Stacked(workers=2))
    assert expected.model is not None
    assert found.model is not None
    assert torch.equal(found.model.params, expected.model.params)
    assert [row["loss"] for row in found.rows] == [row["loss"] for row in expected.rows]
