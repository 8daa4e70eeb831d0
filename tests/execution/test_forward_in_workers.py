"""Worker processes compute the outputs of test batches; the bits are those of one process."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from experiments.small import experiment, timeless
from experiments.test_executors import Kept
from fedflat.client.evaluate import forward_here
from fedflat.core.flat import Model
from fedflat.data.examples import Batch
from fedflat.execution.in_process import InProcess
from fedflat.execution.workers import EvalBatch, Part, WorkerPool, Workers
from fedflat.experiments import evaluator
from fedflat.experiments.evaluator import forward_of
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.train import train
from warm_python import warm_starts

SCENE, FATAL, FAULTY = 100.0, 200.0, 300.0
"""First numbers of a batch whose output is an image in channels-last order, that ends a worker, and
that the module refuses everywhere."""


class Network(nn.Module):
    """A convolution and a batch normalization of the four numbers of an example."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        first = float(x[0, 0])
        if first == FAULTY:
            raise ZeroDivisionError("the model does not like this batch")
        if first == FATAL and multiprocessing.parent_process() is not None:
            os._exit(9)
        pixels: Tensor = self.norm(self.conv(x.view(-1, 1, 2, 2)))
        if first == SCENE:
            return pixels.contiguous(memory_format=torch.channels_last)
        return pixels.mean((2, 3))


@dataclass
class Opened:
    setup: RunSetup
    pool: WorkerPool


@pytest.fixture(scope="module")
def opened() -> Iterator[Opened]:
    setup = prepare(experiment(model=Network, rounds=2))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with (
        warm_starts(),
        Workers(2).open(setup.job, setup.fed, setup.source) as pool,
    ):
        assert isinstance(pool, WorkerPool)
        yield Opened(setup, pool)
    torch.set_num_threads(before)


def batches(*firsts: float) -> list[Batch]:
    rng = torch.Generator().manual_seed(0)
    found = []
    for place, first in enumerate(firsts):
        x = torch.randn(4000 if place == 0 else 7, 4, generator=rng)
        x[0, 0] = first or x[0, 0]
        found.append(Batch(x, torch.arange(len(x)) % 3))
    return found


@pytest.mark.parametrize("norms", [(), ("norm",)])
@pytest.mark.parametrize("firsts", [(0, SCENE, 0, 0, SCENE, 0), (), (0, FATAL, 0, 0, 0)])
def test_outputs_come_in_order_with_the_same_bits(
    opened: Opened, firsts: tuple[float, ...], norms: tuple[str, ...]
) -> None:
    """Also if a worker dies, and for the next model that is loaded."""
    learner, given = opened.setup.job.learner, batches(*firsts)
    start = learner.initial()
    for model in (start, Model(start.params + 1, start.buffers + 0.5)):
        learner.load(model)
        expected = list(forward_here(learner, given, norms))
        found = list(opened.pool.forward(learner, iter(given), norms))
        assert len(expected) == len(given)
        for (batch, output), (same, there) in zip(expected, found, strict=True):
            assert same is batch
            assert torch.equal(output, there)
            assert output.stride() == there.stride()


def test_an_error_of_the_model_is_raised_and_the_next_exchange_works(opened: Opened) -> None:
    learner = opened.setup.job.learner
    learner.load(learner.initial())
    with pytest.raises(ZeroDivisionError, match="does not like"):
        list(opened.pool.forward(learner, batches(0, FAULTY, 0, 0, 0, 0)))
    assert len(list(opened.pool.forward(learner, batches(0, 0, 0)))) == 3


def test_a_run_is_evaluated_in_workers(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that take long are sent, others are not; the scores are the same."""
    setup, sent = opened.setup, list[int]()
    submit = WorkerPool.submit_part

    def count(pool: WorkerPool, part: Part) -> None:
        sent.append(isinstance(part, EvalBatch))
        submit(pool, part)

    monkeypatch.setattr(WorkerPool, "submit_part", count)
    assert forward_of(opened.pool, setup.job.learner) is forward_here
    here = train(setup, executor=InProcess(threads=1))
    monkeypatch.setattr(evaluator, "LONG", 0.0)
    there = train(setup, executor=Kept(opened.pool))
    assert sum(sent) == 2  # one batch after each of two rounds
    assert timeless(here.rows) == timeless(there.rows)
