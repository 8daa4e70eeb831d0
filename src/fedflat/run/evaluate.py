"""Loss and accuracy of a model on the test set, and over the clients' own test sets."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fedflat.client.task import Task
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation
from fedflat.flat import Model

BATCH = 256

Scores = dict[str, float]


def evaluate(task: Task, fed: Federation, models: Mapping[str, Model]) -> dict[str, Scores]:
    """The scores of each model, by name."""
    return {name: score(task, fed, model) for name, model in models.items()}


def score(task: Task, fed: Federation, model: Model) -> Scores:
    """Mean loss and accuracy on the test set; with held-out parts also ``clients``, the mean of the clients'
    accuracies, each on its own part."""
    load(task, model)
    losses, right = judge(task, fed.test)
    scores = {"loss": float(losses.mean())}
    if right is not None:
        scores["accuracy"] = float(right.double().mean())
    if fed.held_out is not None:
        own = [fed.own_test(client) for client in range(fed.population)]
        hits = [judge(task, data)[1] for data in own if data is not None]
        means = [float(hit.double().mean()) for hit in hits if hit is not None]
        if means:
            scores["clients"] = sum(means) / len(means)
    return scores


def load(task: Task, model: Model) -> None:
    """Put a model into the task's module."""
    task.flat.load(model.params)
    task.flat.buffers = model.buffers


def judge(task: Task, data: ClientData) -> tuple[Tensor, Tensor | None]:
    """The loss of each batch spread over its examples, and whether each example was classified rightly."""
    losses, right = [], []
    for places in torch.arange(len(data)).split(BATCH):
        batch = data.batch(places, task.dtype)
        output = task.flat.forward(batch.x)
        losses.append(task.loss(output, batch.y).double().expand(len(batch)))
        if output.dim() == 2 and not batch.y.is_floating_point() and output.shape[1] > 1:
            right.append(output.argmax(1) == batch.y)
    return torch.cat(losses), torch.cat(right) if right else None
