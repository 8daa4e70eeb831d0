"""Loss and scores of a model on the test sets, and over the clients' own test sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import nan
from typing import Any

import torch
from torch import Tensor

from fedflat.client.asks import Evaluate
from fedflat.client.domains import judged
from fedflat.client.learner import Learner
from fedflat.client.visit import Letter
from fedflat.data.federation import Federation
from fedflat.data.roster import Roster
from fedflat.engine.flat import Model
from fedflat.engine.mail import Mail, Reply
from fedflat.engine.missing import Missing
from fedflat.errors import FedflatError
from fedflat.executors.crew import Crew
from fedflat.running.fitting import Fitting, Routing
from fedflat.server.protocol import mean_known

Scores = dict[str, Any]
"""By name; those of further test sets under "tests"."""


OwnTests = Callable[[Model], Tensor]
"""The headline of a model at each client, on the part of its data that it keeps for testing; NaN of one missing."""


def evaluate(
    learner: Learner, fed: Federation, models: Mapping[str, Model],
    own: Callable[[str], OwnTests | None] = lambda name: None, fitting: Fitting = Fitting(),
) -> dict[str, Scores]:  # fmt: skip
    """The scores of each model, by name; the same name says who tests it on parts of their own."""
    return {name: score(learner, fed, model, own(name), fitting) for name, model in models.items()}


def score(
    learner: Learner, fed: Federation, model: Model, own: OwnTests | None = None,
    fitting: Fitting | Routing = Fitting(),
) -> Scores:  # fmt: skip
    """Mean loss and scores on the test set, and on the others by their names; with ``own`` tests also ``clients``, the
    mean of the clients' headlines, each on its own part.

    Those of the examples of a domain, or of all domains with a facet in common, stand under TEST/VALUE. ``fitting``
    says with which form of the model each domain is tested; a test set that cannot be tested is left out.
    """
    load(learner, model)
    reference = fed.tests.get(learner.task.reference)
    every: dict[str, Scores] = {}
    for name, data in fed.tests.items():
        parts = fitting.parts(data, model) if name != learner.task.reference else []
        for value, scores in judged(learner, data, parts, reference).items() if parts else ():
            every[f"{name}/{value}" if value else name] = scores
    main = next(iter(fed.tests))
    found, more = every.pop(main), every
    if own is not None and learner.task.headline.name in found:
        found["clients"] = mean_known(own(model))
    return found | ({"tests": more} if more else {})


def own_tests(
    crew: Crew, roster: Roster, name: str, fitting: Fitting = Fitting(), *, may_miss: bool,
    clients: Sequence[int] | None = None,
) -> OwnTests | None:  # fmt: skip
    """The tests that clients make themselves, where they are visited, of the score ``name``; None if they keep nothing
    to test on.

    Of all clients, or of some, each with what it keeps of the model, as ``fitting`` knows. Who is missing is left out,
    or ends the run. It is a measurement: what is sent for it is not counted.
    """
    whom = roster.clients if clients is None else clients
    return partial(_own_scores, crew, whom, name, fitting, may_miss) if roster.keep_tests else None


def _own_scores(
    crew: Crew, clients: Sequence[int], name: str, fitting: Fitting, may_miss: bool, model: Model
) -> Tensor:  # fmt: skip
    mail = Mail(0, model.params, model.buffers, 0.0, ask=Evaluate())
    found = dict.fromkeys(clients, nan)
    for visited in crew.visit([Letter(client, mail, fitting.kept(client), f"test/{client}") for client in clients]):
        if isinstance(visited, Missing):
            if not may_miss:
                raise visited.error or FedflatError(f"{visited}, when it was asked for its own test.")
            continue
        reply = visited[0]
        assert isinstance(reply, Reply)
        found[reply.client] = float(reply.extras["evaluate"].get(name, nan))
    return torch.tensor(list(found.values()), dtype=torch.float64)


def load(learner: Learner, model: Model) -> None:
    """Put a model into the learner's module."""
    learner.flat.load(model.params)
    learner.flat.buffers = model.buffers
