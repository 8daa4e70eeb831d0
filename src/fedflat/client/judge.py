"""How good the module is, where it stands, on some examples."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from fedflat.client.task import Task
from fedflat.data.examples import Batch, ClientData

BATCH = 256


def judge(task: Task, data: ClientData) -> tuple[Tensor, Tensor | None]:
    """The loss of each batch spread over its examples, and whether each example was classified rightly."""
    losses, right = [], []
    for batch, output in outputs(task, data):
        losses.append(task.loss(output, batch.y).double().expand(len(batch)))
        if output.dim() == 2 and not batch.y.is_floating_point() and output.shape[1] > 1:
            right.append(output.argmax(1) == batch.y)
    return torch.cat(losses), torch.cat(right) if right else None


def outputs(task: Task, data: ClientData) -> Iterator[tuple[Batch, Tensor]]:
    """Batch by batch, with what the module makes of it."""
    for places in torch.arange(len(data)).split(BATCH):
        batch = data.batch(places, task.dtype)
        yield batch, task.flat.forward(task.laid_out(batch.x))


def accuracy(task: Task, data: ClientData) -> float:
    """The share of examples classified rightly."""
    right = judge(task, data)[1]
    assert right is not None, "accuracy of a task that is no classification"
    return float(right.double().mean())
