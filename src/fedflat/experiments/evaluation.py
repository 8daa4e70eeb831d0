"""Loss and scores of a model on the test sets, and over the clients' own test sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import nan
from typing import Any

import torch
from torch import Tensor

from fedflat.client.domain_scores import evaluate_parts
from fedflat.client.instructions import Evaluate
from fedflat.client.learner import Learner
from fedflat.client.training import Request
from fedflat.core.failures import ClientFailure
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast, Reply
from fedflat.data.federation import Federation
from fedflat.errors import FedflatError
from fedflat.execution.client_pool import ClientPool
from fedflat.experiments.eval_models import EvalModels, Routing
from fedflat.server.client_evaluation import nanmean
from fedflat.server.client_registry import ClientRegistry

Scores = dict[str, Any]
"""By name; those of further test sets under "tests"."""


ClientTests = Callable[[Model], Tensor]
"""The headline of a model at each client, on the part of its data that it keeps for testing; NaN of
one missing."""


def evaluate(
    learner: Learner,
    fed: Federation,
    models: Mapping[str, Model],
    own: Callable[[str], ClientTests | None] = lambda name: None,
    eval_models: EvalModels = EvalModels(),
) -> dict[str, Scores]:
    """The scores of each model, by name; the same name says who tests it on parts of their own."""
    return {
        name: score(learner, fed, model, own(name), eval_models) for name, model in models.items()
    }


def score(
    learner: Learner,
    fed: Federation,
    model: Model,
    own: ClientTests | None = None,
    eval_models: EvalModels | Routing = EvalModels(),
) -> Scores:
    """Mean loss and scores on the test set, and on the others by their names; with ``own`` tests
    also ``clients``, the mean of the clients' headlines, each on its own part.

    Those of the examples of a domain, or of all domains with a facet in common, stand under
    TEST/VALUE. ``fitting`` says with which form of the model each domain is tested; a test set that
    cannot be tested is left out.
    """
    load(learner, model)
    reference = fed.tests.get(learner.task.reference)
    every: dict[str, Scores] = {}
    for name, data in fed.tests.items():
        parts = eval_models.parts(data, model) if name != learner.task.reference else []
        for value, scores in (
            evaluate_parts(learner, data, parts, reference).items() if parts else ()
        ):
            every[f"{name}/{value}" if value else name] = scores
    main = next(iter(fed.tests))
    found, more = every.pop(main), every
    if own is not None and learner.task.headline.name in found:
        found["clients"] = nanmean(own(model))
    return found | ({"tests": more} if more else {})


def client_tests(
    pool: ClientPool,
    registry: ClientRegistry,
    name: str,
    eval_models: EvalModels = EvalModels(),
    *,
    may_miss: bool,
    clients: Sequence[int] | None = None,
) -> ClientTests | None:
    """The tests that clients make themselves, where they are visited, of the score ``name``; None
    if they keep nothing to test on.

    Of all clients, or of some, each with what it keeps of the model, as ``fitting`` knows. Who is
    missing is left out, or ends the run. It is a measurement: what is sent for it is not counted.
    """
    whom = registry.clients if clients is None else clients
    return (
        partial(_client_scores, pool, whom, name, eval_models, may_miss)
        if registry.clients_have_tests
        else None
    )


def _client_scores(
    pool: ClientPool,
    clients: Sequence[int],
    name: str,
    eval_models: EvalModels,
    may_miss: bool,
    model: Model,
) -> Tensor:
    broadcast = Broadcast(0, model.params, model.buffers, 0.0, instruction=Evaluate())
    found = dict.fromkeys(clients, nan)
    for outcome in pool.run(
        [
            Request(client, broadcast, eval_models.kept(client), f"test/{client}")
            for client in clients
        ]
    ):
        if isinstance(outcome, ClientFailure):
            if not may_miss:
                raise outcome.error or FedflatError(
                    f"{outcome}, when it was asked for its own test."
                )
            continue
        reply = outcome[0]
        assert isinstance(reply, Reply)
        found[reply.client] = float(reply.extras["evaluate"].get(name, nan))
    return torch.tensor(list(found.values()), dtype=torch.float64)


def load(learner: Learner, model: Model) -> None:
    """Put a model into the learner's module."""
    learner.flat.load(model.params)
    learner.flat.buffers = model.buffers
