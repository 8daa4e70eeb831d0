"""How good the module is, where it stands, on some examples."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from fedflat.client.learner import Learner
from fedflat.data.batch import Batch
from fedflat.data.examples import ClientData

BATCH = 256


def judge(learner: Learner, data: ClientData) -> tuple[Tensor, Tensor | None]:
    """The loss of each batch spread over its examples, and whether each example was classified rightly."""
    losses, right = [], []
    for batch, output in outputs(learner, data):
        losses.append(learner.loss(output, batch.targets).double().expand(len(batch)))
        if output.dim() == 2 and not batch.targets.is_floating_point() and output.shape[1] > 1:
            right.append(output.argmax(1) == batch.targets)
    return torch.cat(losses), torch.cat(right) if right else None


def scores(learner: Learner, data: ClientData) -> dict[str, float]:
    """The mean loss and, of a classification, the share of examples classified rightly."""
    losses, right = judge(learner, data)
    found = {"loss": float(losses.mean())}
    return found if right is None else {**found, "accuracy": float(right.double().mean())}


def outputs(learner: Learner, data: ClientData) -> Iterator[tuple[Batch, Tensor]]:
    """Batch by batch, with what the module makes of it."""
    for batch in data.batches(torch.arange(len(data)).split(BATCH), learner.dtype):
        yield batch, learner.flat.forward(learner.laid_out(batch.inputs))


def accuracy(learner: Learner, data: ClientData) -> float:
    """The share of examples classified rightly."""
    right = judge(learner, data)[1]
    assert right is not None, "accuracy of a learner that is no classification"
    return float(right.double().mean())
