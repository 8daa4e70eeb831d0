"""Evaluation of a run: scores of its models on test sets, and at clients.

`Evaluator` evaluates the one model of a server and its averages. `SlotEvaluator` evaluates several
models. If no model stands for all of them, the reported scores are the means over the slots,
weighted by their clients' examples, under "slots". If the topology routes test examples to slots
(`Topology.route`), the reported scores are those of all examples, each with the model of its slot,
under "routed". Scores on clients' own tests are always the mean over clients of the model of their
own slot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import torch
from torch import Tensor

from fedflat.client.cost_model import forward_cost
from fedflat.client.evaluate import (
    Forward,
    TestPart,
    eval_batch_size,
    evaluate_parts,
    forward_here,
    whole,
)
from fedflat.client.instructions import Evaluate
from fedflat.client.learner import Learner
from fedflat.client.piece import ClientState
from fedflat.client.training import Request
from fedflat.core.failures import ClientFailure
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast, Reply
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation
from fedflat.data.info import VALIDATION
from fedflat.errors import FedflatError
from fedflat.execution.client_pool import ForwardPool, Pool
from fedflat.execution.client_states import ClientStates
from fedflat.experiments.eval_models import EvalModels, Routing, eval_models_of, with_fewer_tests
from fedflat.experiments.prepare import attacked_run
from fedflat.experiments.run_cost import FORWARD
from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.run_setup import RunSetup
from fedflat.server.averaging import AverageState
from fedflat.server.client_evaluation import ClientEvaluation, nanmean
from fedflat.server.client_registry import ClientRegistry
from fedflat.server.replies import match_replies
from fedflat.server.step import StepResult
from fedflat.simulation.attacks.attack import ATTACK
from fedflat.topologies.server_models import ServerModels
from fedflat.topologies.topology import Topology

ROUTED = "routed"
"""Name of the scores of test examples that are each tested with the model of their slot."""
LONG = 0.005
"""Estimated seconds of one test batch below which sending it to another process does not pay."""
SLOTS = "slots"
"""Name of the means over slots, where no model stands for all."""
Scores = dict[str, Any]
"""By name; those of further test sets under "tests"."""
ClientTests = Callable[[Model], Tensor]
"""Returns the score of a model at each client; NaN if the client did not answer."""
Parts = Callable[[ClientData, Model], Sequence[TestPart]]
"""Returns the parts of a test set, each with its model; none if the set cannot be tested."""
StateOf = Callable[[int], ClientState]
"""Returns what a client keeps of the model."""
Averages = Mapping[str, AverageState]


def no_state(client: int) -> ClientState:
    """Clients keep no part of the model."""
    return {}


def score(
    learner: Learner,
    fed: Federation,
    model: Model,
    own: ClientTests | None = None,
    parts: Parts = whole,
    forward: Forward = forward_here,
) -> Scores:
    """Mean loss and scores on the main test set; those on other test sets are under "tests".

    Scores of a domain, or of all domains with a facet in common, have the name TEST/VALUE. With
    ``own``, "clients" is the mean of the clients' own scores. ``parts`` says which model each
    part is tested with; a test set that cannot be tested is left out. ``forward`` computes the
    outputs.
    """
    learner.load(model)
    tests = fed.tests
    reference = tests.get(learner.task.reference)
    every: dict[str, Scores] = {}
    for name, data in tests.items():
        tested = parts(data, model) if name != learner.task.reference else []
        for value, scores in (
            evaluate_parts(learner, data, tested, reference, forward).items() if tested else ()
        ):
            every[f"{name}/{value}" if value else name] = scores
    found, more = every.pop(next(iter(tests))), every
    if own is not None and learner.task.headline.name in found:
        found["clients"] = nanmean(own(model))
    return found | ({"tests": more} if more else {})


def client_tests(
    pool: Pool,
    registry: ClientRegistry,
    score: str,
    request: str,
    client_state: StateOf = no_state,
    *,
    may_miss: bool,
    clients: Sequence[int] | None = None,
) -> ClientTests | None:
    """The tests of a model at clients, on the data that they keep for that; None if they keep none.

    It is a measurement: what is sent for it is not counted.

    Args:
        score: name of the score.
        request: prefix of the ids of its requests, unique in the run.
        client_state: what a client keeps of the model.
        may_miss: give clients that do not answer NaN; otherwise that is an error.
        clients: all if None.
    """
    if not registry.clients_have_tests:
        return None
    asked = registry.clients if clients is None else clients

    def test(model: Model) -> Tensor:
        broadcast = Broadcast(0, model.params, model.buffers, 0.0, instruction=Evaluate())
        requests = [
            Request(client, broadcast, client_state(client), f"{request}/{client}")
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


@dataclass(frozen=True)
class Evaluator:
    """Evaluates the models of a run, on test sets and at clients."""

    pool: Pool
    learner: Learner
    fed: Federation
    registry: ClientRegistry
    server: ServerModels
    evaluations: Sequence[ClientEvaluation] = ()
    may_miss: bool = False
    """True if clients that do not answer count as NaN; otherwise that is an error."""
    eval_models: Callable[[ClientStates], EvalModels] | None = None
    """Which model each part of a test set is tested with, where clients keep a part of it."""
    more_tests: Sequence[Callable[[], Scores]] = ()
    """Return scores of the model in the learner on further test sets."""
    measures: Sequence[Callable[[Averages], Row]] = ()
    """Return further metrics of a round."""
    forward: Forward = forward_here
    """Computes the outputs on test sets."""

    def evaluate(
        self,
        t: int,
        steps: Mapping[str, StepResult],
        models: Mapping[str, Model],
        averages: Averages,
        clients: ClientStates,
    ) -> Row:
        """The row of metrics of round ``t``: scores of all models, and what the method measured."""
        server = self.server
        scores = self.scores(t + 1, models, averages, clients)
        row: Row = {"round": t + 1, **headline_model(scores), **self.step_metrics(steps)}
        row |= server.topology.metrics(server.population, t)
        row["train_loss"] = loss_of(steps)
        row |= self.client_means(row, scores)
        for measure in self.measures:
            row |= measure(averages)
        for average in self.server.averages:
            row |= average.scores(averages[average.key])
        return row

    def reply_scores(self, t: int, averages: Averages) -> Row:
        """What clients measured while they trained in round ``t``; empty if nothing."""
        row: Row = {}
        for evaluation in self.evaluations:
            row = {"round": t + 1, **row, **evaluation.scores(averages[evaluation.key])}
        return row

    def scores(
        self, done: int, models: Mapping[str, Model], averages: Averages, clients: ClientStates
    ) -> dict[str, Scores]:
        """The scores of all models by name after ``done`` rounds, the reported one last."""
        named = self.server.by_name(done, models, averages)
        parts: Parts = whole
        client_state: StateOf = no_state
        if self.eval_models is not None:
            forms = self.eval_models(clients)
            parts, client_state = forms.parts, forms.client_state
        scores = {
            name: score(
                self.learner,
                self.fed,
                model,
                self.client_tests(done, name, client_state, self.clients_of(name)),
                parts,
                self.forward,
            )
            for name, model in named.items()
        }
        for test in self.more_tests:
            for name, model in named.items():
                self.learner.load(model)
                found = {**scores[name].get("tests", {}), **test()}
                scores[name] |= {"tests": found} if found else {}
        return scores

    def client_tests(
        self,
        done: int,
        name: str,
        client_state: StateOf = no_state,
        clients: Sequence[int] | None = None,
    ) -> ClientTests | None:
        """The tests of the model ``name`` after ``done`` rounds at clients, if they have some."""
        return client_tests(
            self.pool,
            self.registry,
            self.learner.task.headline.name,
            f"evaluate/{done}/{name}",
            client_state,
            may_miss=self.may_miss,
            clients=clients,
        )

    def clients_of(self, name: str) -> Sequence[int] | None:
        """The clients at which a model is tested; None: all."""
        return None

    def step_metrics(self, steps: Mapping[str, StepResult]) -> Row:
        """Metrics of the server's pieces."""
        return {name: value for one in steps.values() for name, value in one.metrics.items()}

    def client_means(self, row: Row, scores: Mapping[str, Scores]) -> Row:
        """Means over clients in place of those in the row."""
        return {}


class SlotEvaluator(Evaluator):
    """Evaluates the models of a server that has several."""

    def scores(
        self, done: int, models: Mapping[str, Model], averages: Averages, clients: ClientStates
    ) -> dict[str, Scores]:
        """The scores of all models by name, the reported one last."""
        server = self.server
        scores = super().scores(done, models, averages, clients)
        if server.route(self.fed.test) is not None:
            slots = [models[slot] for slot in server.slots]
            routing = Routing(server.route, slots)  # type: ignore[arg-type]
            scores[ROUTED] = score(
                self.learner, self.fed, slots[0], parts=routing.parts, forward=self.forward
            )
            for average in self.server.averages:
                if average.key in scores:
                    scores[average.key] = scores.pop(average.key)
        if server.center(done, models) is None:
            each = {slot: scores[slot] for slot in server.reported_slots}
            scores[SLOTS] = _means(each, self.server.examples())
            chosen_by = {
                slot: one["tests"][VALIDATION]
                for slot, one in each.items()
                if VALIDATION in one.get("tests", {})
            }
            if chosen_by:
                means = _means(chosen_by, self.server.examples())
                scores[SLOTS] = {**scores[SLOTS], "tests": {VALIDATION: means}}
        return scores

    def clients_of(self, name: str) -> Sequence[int] | None:
        """A slot's model is tested at the clients of the slot."""
        return self.server.reported_slots.get(name)

    def step_metrics(self, steps: Mapping[str, StepResult]) -> Row:
        """Metrics of the server's pieces; their names end in the slot if there are several."""
        if len(self.server.slots) == 1:
            return super().step_metrics(steps)
        return {
            f"{name}.{slot}": value
            for slot, one in steps.items()
            for name, value in one.metrics.items()
        }

    def client_means(self, row: Row, scores: Mapping[str, Scores]) -> Row:
        """The mean over all clients, each with the model of its slot."""
        several = self.server.reported_slots
        if not several or "clients" not in row:
            return {}
        own = {slot: {"clients": scores[slot]["clients"]} for slot in several}
        return _means(own, {slot: len(members) for slot, members in several.items()})


def open_evaluator(setup: RunSetup, pool: Pool) -> Evaluator:
    """The evaluator of a run: by its server models, the pieces of its clients, and its attack."""
    exp, job = setup.exp, setup.job
    several = len(setup.server.slots) > 1 or type(exp.topology).route is not Topology.route
    kind = SlotEvaluator if several else Evaluator
    attack = exp.attack
    more_tests: list[Callable[[], Scores]] = []
    measures: list[Callable[[Averages], Row]] = []
    if attack is not None:
        attacked = attacked_run(exp, setup.fed, job.learner, setup.server.population)
        more_tests.append(lambda: attack.tests(attacked))
        measures.append(lambda averages: attack.measure(dict(averages.get(ATTACK, {}))))
    return kind(
        pool,
        job.learner,
        with_fewer_tests(setup.fed, exp.evaluate.examples),
        setup.registry,
        setup.server,
        exp.method.evaluations,
        exp.min_replies is not None,
        eval_models_of(job, setup.registry, setup.fed),
        more_tests,
        measures,
        forward_of(pool, job.learner),
    )


def forward_of(pool: Pool, learner: Learner) -> Forward:
    """What computes the outputs on test sets: the pool if it can and if it pays, by an estimate."""
    if not isinstance(pool, ForwardPool) or torch.device(learner.device).type != "cpu":
        return forward_here
    batch = forward_cost(learner).seconds(1, eval_batch_size(learner.shape))
    return pool.forward if FORWARD * batch >= LONG else forward_here


def headline_model(scores: dict[str, Scores]) -> Row:
    """The scores of the reported model, which is the last, and under "models" those of all."""
    name = list(scores)[-1]
    return {**scores[name], "model": name, "models": scores}


def loss_of(new: Mapping[str, StepResult]) -> float:
    """The mean training loss of a round, weighted by the replies of each slot."""
    if len(new) == 1:
        return next(iter(new.values())).replies.loss
    return sum(one.replies.weight * one.replies.loss for one in new.values()) / sum(
        one.replies.weight for one in new.values()
    )


def _means(scores: Mapping[str, Mapping[str, Any]], weights: Mapping[str, int]) -> dict[str, Any]:
    """The weighted means of numbers of the same name."""
    first, total = next(iter(scores.values())), sum(weights[slot] for slot in scores)
    names = [name for name, value in first.items() if isinstance(value, int | float)]
    return {
        name: sum(weights[slot] * one[name] for slot, one in scores.items()) / total
        for name in names
    }
