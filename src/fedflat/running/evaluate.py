"""Loss and scores of a model on the test sets, and over the clients' own test sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fedflat.client.judge import headline, scores
from fedflat.client.learner import Learner
from fedflat.data.federation import Federation
from fedflat.engine.flat import Model

Scores = dict[str, Any]
"""By name; those of further test sets under "tests"."""


def evaluate(learner: Learner, fed: Federation, models: Mapping[str, Model]) -> dict[str, Scores]:
    """The scores of each model, by name."""
    return {name: score(learner, fed, model) for name, model in models.items()}


def score(learner: Learner, fed: Federation, model: Model) -> Scores:
    """Mean loss and scores on the test set, and on the others by their names; with held-out parts also ``clients``, the
    mean of the clients' headlines, each on its own part."""
    load(learner, model)
    reference = fed.tests.get(learner.task.reference)
    found: Scores = dict(scores(learner, fed.test, reference))
    _, *others = fed.tests
    more = {name: scores(learner, fed.tests[name], reference) for name in others if name != learner.task.reference}
    if fed.held_out is not None and learner.task.headline.name in found:
        found["clients"] = float(own_scores(learner, fed, model).mean())
    return found | ({"tests": more} if more else {})


def own_scores(learner: Learner, fed: Federation, model: Model) -> Tensor:
    """The headline of one model on each client's held-out part."""
    load(learner, model)
    own = [fed.own_test(client) for client in range(fed.population)]
    return torch.tensor([headline(learner, data) for data in own if data is not None], dtype=torch.float64)


def load(learner: Learner, model: Model) -> None:
    """Put a model into the learner's module."""
    learner.flat.load(model.params)
    learner.flat.buffers = model.buffers
