"""How good the module is, where it stands, on some examples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from math import prod
from typing import Any

import torch
from torch import Tensor

from fedflat.client.learner import Learner
from fedflat.data.batch import Batch, arguments
from fedflat.data.examples import ClientData

BATCH = 256
NUMBERS = 1 << 23
"""The most numbers that go into the module at once."""


def scores(
    learner: Learner, data: ClientData, reference: ClientData | None = None
) -> dict[str, float]:
    """The mean loss and the task's scores; ``reference`` is what the examples are looked up in, if
    the task does so."""
    tally = Scorer(learner)
    if reference is not None:
        for batch, output in outputs(learner, reference):
            tally.meter.refer(output, batch)  # type: ignore[attr-defined]
    for batch, output in outputs(learner, data):
        tally.add(batch, output)
    return tally.scores()


class Scorer:
    """Adds up the loss of some examples, and what their scores are made of."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.meter = learner, learner.task.meter(learner.outputs)
        self.losses: list[Tensor] = []
        self.counted = 0.0

    def add(self, batch: Batch, output: Any) -> None:
        """One more batch, and what the module has made of it."""
        mean, count = self.learner.mean(output, batch)
        self.counted += float(count)
        self.losses.append((mean.double() * (float(count) / len(batch))).expand(len(batch)))
        self.meter.add(output, batch)

    def scores(self) -> dict[str, float]:
        """The mean loss and the task's scores."""
        return {
            "loss": float(torch.cat(self.losses).sum() / (self.counted or 1.0)),
            **self.meter.scores(),
        }


def outputs(learner: Learner, data: ClientData) -> Iterator[tuple[Batch, Any]]:
    """Batch by batch, with what the module makes of it."""
    for batch in data.batches(
        torch.arange(len(data)).split(eval_batch_size(data.examples.shape)), learner.dtype
    ):
        yield batch, learner.flat.forward(*arguments(learner.in_memory_format(batch.inputs)))


def eval_batch_size(shape: tuple[int, ...]) -> int:
    """How many examples of this shape are judged at once: fewer of large images, whose every pixel
    has its scores.

    >>> eval_batch_size((3, 32, 32)), eval_batch_size((3, 180, 240)), eval_batch_size((3, 1024, 2048))
    (256, 64, 1)
    """
    return min(BATCH, max(1, NUMBERS // max(prod(shape), 1)))


def headline(learner: Learner, data: ClientData) -> float:
    """The one score that counts; NaN if a loss of one's own leaves none."""
    return scores(learner, data).get(learner.task.headline.name, math.nan)
