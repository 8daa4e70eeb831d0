"""Stacks are as large as the memory allows, and smaller if it does not suffice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from fedflat.client.stacked_gradients import footprint
from fedflat.client.training import ClientJob, Request
from fedflat.core.messages import ReplyBatch
from fedflat.data.federation import Federation
from fedflat.errors import SettingError
from fedflat.execution import stacked_pool
from fedflat.execution.client_pool import ClientPool, PoolOutcome, Source
from fedflat.execution.stacked import Stacked
from fedflat.execution.stacked_pool import SHARE, StackedPool, stack_capacity
from fedflat.experiments.api import experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.train import train

RUN: dict[str, Any] = {
    "on": "synthetic(clients=12, examples=6, features=8)",
    "model": "mlp([4])",
    "rounds": 2,
    "clients_per_round": 8,
    "batch_size": 3,
}


@dataclass
class Recorded:
    """Stacks in this process; keeps the number of clients of each."""

    capacity: int | None = None
    sizes: list[int] = field(default_factory=list)

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[ClientPool]:
        pool = StackedPool(job, fed, self.capacity)
        run = pool.run

        def running(requests: Sequence[Request]) -> Iterator[PoolOutcome]:
            for outcome in run(requests):
                if isinstance(outcome, tuple) and isinstance(outcome[0], ReplyBatch):
                    self.sizes.append(len(outcome[0].clients))
                yield outcome

        pool.run = running  # type: ignore[method-assign]
        yield pool


def memory_for(monkeypatch: pytest.MonkeyPatch, clients: int) -> None:
    """Let stacks of more clients fail as on a GPU whose memory is full."""
    run_stack = stacked_pool.run_stack

    def limited(job: Any, batched: Any, requests: Any, data: Any) -> Any:
        if len(requests) > clients:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return run_stack(job, batched, requests, data)

    monkeypatch.setattr(stacked_pool, "run_stack", limited)


def params(executor: Any) -> torch.Tensor:
    model = train(prepare(experiment("fedsam", **RUN)), executor=executor).model
    assert model is not None
    return model.params


def test_a_stack_that_does_not_fit_is_cut_into_smaller_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bits are those of stacks that had this size from the beginning."""
    expected, whole = params(Recorded(capacity=2)), params(Stacked())
    memory_for(monkeypatch, 3)
    limited = Recorded()
    found = params(limited)
    assert limited.sizes == [2] * 8
    assert torch.equal(found, expected)
    torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-6)


def test_a_client_that_does_not_fit_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(stacked_pool, "run_stack", full)
    monkeypatch.setattr(stacked_pool, "run_client", full)
    with pytest.raises(SettingError, match=r"one client does not fit .* Use smaller batches"):
        params(Stacked())


def test_other_errors_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def failing(*args: Any) -> Any:
        calls.append(args)
        raise ValueError("no")

    monkeypatch.setattr(stacked_pool, "run_stack", failing)
    with pytest.raises(ValueError, match="no"):
        params(Stacked())
    assert len(calls) == 1


@pytest.mark.parametrize("clients", [1, 3, 100])
def test_a_limit_of_the_stack(clients: int) -> None:
    one, other = params(Stacked(clients=clients)), params(Recorded(capacity=clients))
    assert torch.equal(one, other)
    with pytest.raises(SettingError, match="clients must be a whole number"):
        Stacked(clients=0)


def test_capacity_follows_the_free_memory_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    job = prepare(experiment("fedavg", **RUN)).job
    each = footprint(job.learner, job.local.batch_size)
    assert stack_capacity(job) == stacked_pool.ROOM // each
    monkeypatch.setattr(stacked_pool, "free_memory", lambda device: 100 * SHARE * each)
    assert stack_capacity(job) == 64
    assert stack_capacity(job, sharing=2) == 32
    monkeypatch.setattr(stacked_pool, "free_memory", lambda device: each)
    assert stack_capacity(job) == 1
    with pytest.raises(SettingError, match="are free for each of the 2 processes on it"):
        stack_capacity(job, sharing=2)
