"""Evaluation of a run: its models by name, their scores, and which of them is reported.

A run reports its last average; without one, the server's model. If the server has several models,
it reports the one that stands for all of them (`ServerModels.center`), and beside it each of them
under the name of its slot, if the topology reports slots. If no model stands for all, the reported
scores are the means over the slots, weighted by their clients' examples, under "slots", and the
reported model is that of the slot with the most examples. If the topology routes test examples to
slots (`Topology.route`), the reported scores are those of all examples, each with the model of its
slot, under "routed". Scores on clients' own tests are always the mean over clients of the model of
their own slot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import nn

from fedflat.core.flat import Model
from fedflat.execution.client_pool import ClientPool
from fedflat.execution.client_states import ClientStates
from fedflat.experiments.eval_models import EvalModels, Routing, eval_models_of
from fedflat.experiments.evaluation import (
    ClientTests,
    Scores,
    client_tests,
    evaluate,
    load,
    score,
)
from fedflat.experiments.prepare import PreparedRun
from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.run_folder.model_files import Named, in_memory
from fedflat.experiments.state import RunState
from fedflat.server.averaging import AverageState
from fedflat.server.piece import StepResult
from fedflat.simulation.attacks.attack import ATTACK, Attack
from fedflat.topologies.topology import SERVER

ROUTED = "routed"
"""Name of the scores of test examples that are each tested with the model of their slot."""
SLOTS = "slots"
"""Name of the means over slots, where no model stands for all."""


def models_of(
    prepared: PreparedRun,
    done: int,
    models: Mapping[str, Model],
    averages: Mapping[str, AverageState],
) -> dict[str, Model]:
    """The server's models and the averages that have begun, the reported one last."""
    center = prepared.server.center(done, models)
    named = {slot: models[slot] for slot in prepared.server.reported_slots}
    if center is None:
        examples = _examples(prepared)
        largest = max(named, key=lambda slot: examples[slot])
        return {
            **{slot: model for slot, model in named.items() if slot != largest},
            largest: named[largest],
        }
    named[SERVER] = center
    for average in prepared.exp.method.averages:
        params = average.params(averages[average.key], prepared.info, center.params)
        if params is not None:
            named[average.key] = replace(center, params=params)
    return named


def named_models(prepared: PreparedRun, run: RunState) -> dict[str, Named]:
    """The weights of all models, by the names of the module; the reported model is last."""
    fresh = prepared.learner.copy()
    return {
        name: fresh.state_dict_of(model)
        for name, model in models_of(prepared, run.round, run.models, run.averages).items()
    }


def modules(prepared: PreparedRun, run: RunState) -> Callable[[str | None], nn.Module]:
    """Returns any of the models, by name, as a module."""
    return partial(
        in_memory, prepared.learner, models_of(prepared, run.round, run.models, run.averages)
    )


@dataclass(frozen=True)
class Evaluator:
    """Evaluates the models of a run, on test sets and at clients."""

    prepared: PreparedRun
    pool: ClientPool

    def evaluate(
        self,
        t: int,
        steps: Mapping[str, StepResult],
        models: Mapping[str, Model],
        averages: Mapping[str, AverageState],
        clients: ClientStates,
    ) -> Row:
        """The row of metrics of round ``t``: scores of all models, and what the method measured."""
        prepared = self.prepared
        server, exp = prepared.server, prepared.exp
        scores = self._scores(t, models, averages, clients)
        row: Row = {"round": t + 1, **headline_model(scores)}
        row |= _step_metrics(steps, len(server.slots) > 1)
        row |= exp.topology.metrics(prepared.clients, t)
        row["train_loss"] = loss_of(steps)
        several = server.reported_slots
        if several and "clients" in row:
            own = {slot: {"clients": scores[slot]["clients"]} for slot in several}
            counts = {slot: len(members) for slot, members in several.items()}
            row["clients"] = _means(own, counts)["clients"]
        if exp.attack is not None:
            row |= exp.attack.measure(dict(averages.get(ATTACK, {})))
        for average in exp.method.averages:
            row |= average.scores(averages[average.key])
        return row

    def reply_scores(self, t: int, averages: Mapping[str, AverageState]) -> Row:
        """What clients measured while they trained in round ``t``; empty if nothing."""
        row: Row = {}
        for evaluation in self.prepared.exp.method.evaluations:
            row = {"round": t + 1, **row, **evaluation.scores(averages[evaluation.key])}
        return row

    def client_tests(
        self,
        t: int,
        name: str,
        eval_models: EvalModels = EvalModels(),
        clients: Sequence[int] | None = None,
    ) -> ClientTests | None:
        """The tests of the model ``name`` after ``t`` rounds at clients, if they keep test data."""
        return client_tests(
            self.pool,
            self.prepared.registry,
            self.prepared.exp.task.headline.name,
            f"evaluate/{t}/{name}",
            eval_models,
            may_miss=self.prepared.exp.min_replies is not None,
            clients=clients,
        )

    def _scores(
        self,
        t: int,
        models: Mapping[str, Model],
        averages: Mapping[str, AverageState],
        clients: ClientStates,
    ) -> dict[str, Scores]:
        """The scores of all models by name, the reported one last."""
        prepared, server = self.prepared, self.prepared.server
        named = models_of(prepared, t + 1, models, averages)
        eval_models = eval_models_of(prepared, clients)
        own = {
            name: self.client_tests(t + 1, name, eval_models, server.reported_slots.get(name))
            for name in named
        }
        scores = evaluate(prepared.learner, prepared.fed, named, own.get, eval_models)
        if prepared.exp.attack is not None:
            self._add_attack_scores(prepared.exp.attack, named, scores)
        if server.route(prepared.fed.test) is not None:
            scores[ROUTED] = self._routed_scores(models)
            for average in prepared.exp.method.averages:
                if average.key in scores:
                    scores[average.key] = scores.pop(average.key)
        if server.center(t + 1, models) is None:
            each = {slot: scores[slot] for slot in server.reported_slots}
            scores[SLOTS] = _means(each, _examples(prepared))
        return scores

    def _add_attack_scores(
        self, attack: Attack, named: Mapping[str, Model], scores: dict[str, Scores]
    ) -> None:
        for name, model in named.items():
            load(self.prepared.learner, model)
            tests = attack.tests(self.prepared.attacked_run)
            found = {**scores[name].get("tests", {}), **tests}
            if found:
                scores[name]["tests"] = found

    def _routed_scores(self, models: Mapping[str, Model]) -> Scores:
        """Scores of test examples that are each tested with the model of their slot."""
        prepared = self.prepared
        slots = [models[slot] for slot in prepared.server.slots]
        routing = Routing(prepared.server.route, slots)  # type: ignore[arg-type]
        return score(prepared.learner, prepared.fed, slots[0], eval_models=routing)


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


def _step_metrics(new: Mapping[str, StepResult], several: bool) -> Row:
    """Metrics of the server's pieces; their names end in the slot if there are several."""
    notes = (
        (name, slot, value) for slot, one in new.items() for name, value in one.metrics.items()
    )
    return {f"{name}.{slot}" if several else name: value for name, slot, value in notes}


def _examples(prepared: PreparedRun) -> dict[str, int]:
    sizes = prepared.registry.sizes()
    return {
        slot: sum(sizes[client] for client in clients)
        for slot, clients in prepared.server.slots.items()
    }


def _means(scores: Mapping[str, Mapping[str, Any]], weights: Mapping[str, int]) -> dict[str, Any]:
    """The weighted means of numbers of the same name."""
    first, total = next(iter(scores.values())), sum(weights[slot] for slot in scores)
    names = [name for name, value in first.items() if isinstance(value, int | float)]
    return {
        name: sum(weights[slot] * one[name] for slot, one in scores.items()) / total
        for name in names
    }
