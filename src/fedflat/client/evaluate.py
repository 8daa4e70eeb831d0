"""Evaluation of the learner's module, with its current parameters, on some examples."""

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
"""Largest number of examples in a batch."""
NUMBERS = 1 << 23
"""Largest number of input numbers in a batch."""


def scores(
    learner: Learner, data: ClientData, reference: ClientData | None = None
) -> dict[str, float]:
    """Return the mean loss and the task's scores.

    Retrieval tasks look the examples up in ``reference``.
    """
    scorer = Scorer(learner)
    if reference is not None:
        for batch, output in outputs(learner, reference):
            scorer.meter.refer(output, batch)  # type: ignore[attr-defined]
    for batch, output in outputs(learner, data):
        scorer.add(batch, output)
    return scorer.scores()


class Scorer:
    """Accumulates the loss and the task's scores over batches."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.meter = learner, learner.task.meter(learner.outputs)
        self.losses: list[Tensor] = []
        self.counted = 0.0

    def add(self, batch: Batch, output: Any) -> None:
        """Add a batch and the module's output on it."""
        mean, count = self.learner.mean(output, batch)
        self.counted += float(count)
        self.losses.append((mean.double() * (float(count) / len(batch))).expand(len(batch)))
        self.meter.add(output, batch)

    def scores(self) -> dict[str, float]:
        """Return the mean loss and the task's scores."""
        return {
            "loss": float(torch.cat(self.losses).sum() / (self.counted or 1.0)),
            **self.meter.scores(),
        }


def outputs(learner: Learner, data: ClientData) -> Iterator[tuple[Batch, Any]]:
    """Yield each batch with the module's output."""
    for batch in data.batches(
        torch.arange(len(data)).split(eval_batch_size(data.examples.shape)), learner.dtype
    ):
        yield batch, learner.flat.forward(*arguments(learner.in_memory_format(batch.inputs)))


def eval_batch_size(shape: tuple[int, ...]) -> int:
    """Return the batch size for examples of this shape: smaller for large images.

    >>> eval_batch_size((3, 32, 32)), eval_batch_size((3, 180, 240))
    (256, 64)
    >>> eval_batch_size((3, 1024, 2048))
    1
    """
    return min(BATCH, max(1, NUMBERS // max(prod(shape), 1)))


def headline(learner: Learner, data: ClientData) -> float:
    """Return the task's headline score; NaN if a custom loss leaves none."""
    return scores(learner, data).get(learner.task.headline.name, math.nan)
