"""Loss and scores of a model on the test sets, and over the clients' own test sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from fedflat.experiments.replies import match_replies
from fedflat.server.client_evaluation import nanmean
from fedflat.server.client_registry import ClientRegistry

Scores = dict[str, Any]
"""By name; those of further test sets under "tests"."""
ClientTests = Callable[[Model], Tensor]
"""Returns the score of a model at each client; NaN if the client did not answer."""


def evaluate(
    learner: Learner,
    fed: Federation,
    models: Mapping[str, Model],
    own: Callable[[str], ClientTests | None] = lambda name: None,
    eval_models: EvalModels = EvalModels(),
) -> dict[str, Scores]:
    """The scores of each model, by name; ``own`` returns the tests of that model at clients."""
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
    """Mean loss and scores on the main test set; those on other test sets are under "tests".

    Scores of a domain, or of all domains with a facet in common, have the name TEST/VALUE. With
    ``own``, "clients" is the mean of the clients' own scores. ``eval_models`` says which model each
    part is tested with; a test set that cannot be tested is left out.
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
    score: str,
    request: str,
    eval_models: EvalModels = EvalModels(),
    *,
    may_miss: bool,
    clients: Sequence[int] | None = None,
) -> ClientTests | None:
    """The tests of a model at clients, on the data that they keep for that; None if they keep none.

    It is a measurement: what is sent for it is not counted.

    Args:
        score: name of the score.
        request: prefix of the ids of its requests, unique in the run.
        eval_models: knows what clients keep of the model.
        may_miss: give clients that do not answer NaN; otherwise that is an error.
        clients: all if None.
    """
    if not registry.clients_have_tests:
        return None
    asked = registry.clients if clients is None else clients

    def test(model: Model) -> Tensor:
        broadcast = Broadcast(0, model.params, model.buffers, 0.0, instruction=Evaluate())
        requests = [
            Request(client, broadcast, eval_models.kept(client), f"{request}/{client}")
            for client in asked
        ]
        found = dict.fromkeys(asked, nan)
        ids = {one.id: one.client for one in requests}
        for outcome in match_replies(pool.run(requests), ids, broadcast, each=True):
            if isinstance(outcome, ClientFailure):
                if not may_miss:
                    raise outcome.error or FedflatError(
                        f"{outcome}, when it was asked for its own test."
                    )
                continue
            reply = outcome[0]
            assert isinstance(reply, Reply)
            found[reply.client] = float(reply.extras["evaluate"].get(score, nan))
        return torch.tensor(list(found.values()), dtype=torch.float64)

    return test


def load(learner: Learner, model: Model) -> None:
    """Put a model into the learner's module."""
    learner.flat.load(model.params)
    learner.flat.buffers = model.buffers
