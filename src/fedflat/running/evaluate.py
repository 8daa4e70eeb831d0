"""Loss and accuracy of a model on the test set, and over the clients' own test sets."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fedflat.client.judge import accuracy, scores
from fedflat.client.learner import Learner
from fedflat.data.federation import Federation
from fedflat.engine.flat import Model

Scores = dict[str, float]


def evaluate(learner: Learner, fed: Federation, models: Mapping[str, Model]) -> dict[str, Scores]:
    """The scores of each model, by name."""
    return {name: score(learner, fed, model) for name, model in models.items()}


def score(learner: Learner, fed: Federation, model: Model) -> Scores:
    """Mean loss and accuracy on the test set; with held-out parts also ``clients``, the mean of the clients'
    accuracies, each on its own part."""
    load(learner, model)
    found = scores(learner, fed.test)
    if fed.held_out is not None and "accuracy" in found:
        found["clients"] = float(own_accuracies(learner, fed, model).mean())
    return found


def own_accuracies(learner: Learner, fed: Federation, model: Model) -> Tensor:
    """The accuracy of one model on each client's held-out part."""
    load(learner, model)
    own = [fed.own_test(client) for client in range(fed.population)]
    return torch.tensor([accuracy(learner, data) for data in own if data is not None], dtype=torch.float64)


def load(learner: Learner, model: Model) -> None:
    """Put a model into the learner's module."""
    learner.flat.load(model.params)
    learner.flat.buffers = model.buffers
