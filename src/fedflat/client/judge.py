"""How good the module is, where it stands, on some examples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from fedflat.client.learner import Learner
from fedflat.data.batch import Batch, arguments
from fedflat.data.examples import ClientData

BATCH = 256


def scores(learner: Learner, data: ClientData, reference: ClientData | None = None) -> dict[str, float]:
    """The mean loss and the task's scores; ``reference`` is what the examples are looked up in, if the task does so."""
    meter = learner.task.meter(learner.outputs)
    if reference is not None:
        for batch, output in outputs(learner, reference):
            meter.refer(output, batch)  # type: ignore[attr-defined]
    losses: list[Tensor] = []
    counted = 0.0
    for batch, output in outputs(learner, data):
        mean, count = learner.mean(output, batch)
        counted += float(count)
        losses.append((mean.double() * (float(count) / len(batch))).expand(len(batch)))
        meter.add(output, batch)
    return {"loss": float(torch.cat(losses).sum() / (counted or 1.0)), **meter.scores()}


def outputs(learner: Learner, data: ClientData) -> Iterator[tuple[Batch, Any]]:
    """Batch by batch, with what the module makes of it."""
    for batch in data.batches(torch.arange(len(data)).split(BATCH), learner.dtype):
        yield batch, learner.flat.forward(*arguments(learner.laid_out(batch.inputs)))


def headline(learner: Learner, data: ClientData) -> float:
    """The one score that counts; NaN if a loss of one's own leaves none."""
    return scores(learner, data).get(learner.task.headline.name, math.nan)
