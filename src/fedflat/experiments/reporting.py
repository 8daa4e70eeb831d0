"""What is told of a run: its models by name, their scores, and which of them counts.

A run reports its last shadow; without one the server's model; if the server has several, the model
that stands for all of them, and beside it each of them under the name of its slot, if it is of
interest by itself. Where no model stands for all, the scores that count are the means over the
slots by their clients' examples, under "slots", and the file of the reported model is that of the
slot with the most examples. Where the topology says which slot's model a test example is for
(`Topology.route`), the scores that count are those of all examples, each by its own model, under
"routed". What clients score on their own test parts is, in each of these cases, the mean over the
clients of the model of their own slot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn

from fedflat.core.flat import Model
from fedflat.execution.client_pool import ClientPool
from fedflat.execution.client_states import ClientStates
from fedflat.experiments.evaluation import Scores, evaluate, load, score
from fedflat.experiments.prepare import PreparedRun
from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.run_folder.model_files import Named, in_memory
from fedflat.experiments.state import RunState
from fedflat.server.averaging import AverageState
from fedflat.server.piece import StepResult
from fedflat.simulation.attacks.attack import ATTACK
from fedflat.topologies.topology import SERVER

ROUTED = "routed"
"""The name under which the scores are told of test examples that are each judged by the model they
are for."""
SLOTS = "slots"
"""The name under which the means over slots are told, where no model stands for all."""


def models_of(
    prepared: PreparedRun,
    done: int,
    models: Mapping[str, Model],
    averages: Mapping[str, AverageState],
) -> dict[str, Model]:
    """The server's models and those of the shadows that have begun, the reported one last."""
    centre = prepared.center(done, models)
    named = {slot: models[slot] for slot in prepared.reported_slots}
    if centre is None:
        examples = _examples(prepared)
        largest = max(named, key=lambda slot: examples[slot])
        return {
            **{slot: model for slot, model in named.items() if slot != largest},
            largest: named[largest],
        }
    named[SERVER] = centre
    for average in prepared.exp.method.averages:
        params = average.params(averages[average.key], prepared.info, centre.params)
        if params is not None:
            named[average.key] = replace(centre, params=params)
    return named


def named_models(prepared: PreparedRun, run: RunState) -> dict[str, Named]:
    """All models by their module's own names, the reported one last."""
    fresh = prepared.learner.copy()
    return {
        name: fresh.state_dict_of(model)
        for name, model in models_of(prepared, run.round, run.models, run.averages).items()
    }


def modules(prepared: PreparedRun, run: RunState) -> Callable[[str | None], nn.Module]:
    """What makes any of the models, by name, a module."""
    return partial(
        in_memory, prepared.learner, models_of(prepared, run.round, run.models, run.averages)
    )


def reply_scores(prepared: PreparedRun, t: int, averages: Mapping[str, AverageState]) -> Row:
    """What is written of round ``t``, be models evaluated or not: what visits have told protocols
    by the way."""
    told = [
        evaluation.scores(averages[evaluation.key])
        for evaluation in prepared.exp.method.evaluations
    ]
    return (
        {"round": t + 1, **{name: score for one in told for name, score in one.items()}}
        if told
        else {}
    )


def evaluate_models(
    prepared: PreparedRun,
    t: int,
    new: Mapping[str, StepResult],
    models: Mapping[str, Model],
    averages: Mapping[str, AverageState],
    pool: ClientPool,
    clients: ClientStates,
) -> Row:
    """What is written of round ``t`` if it is due: the scores of all models, and what the method
    has measured."""
    several = prepared.reported_slots
    named = models_of(prepared, t + 1, models, averages)
    eval_models = prepared.eval_models(clients)
    own = {name: prepared.client_tests(pool, eval_models, several.get(name)) for name in named}
    scores = evaluate(prepared.learner, prepared.fed, named, own.get, eval_models)
    if (attack := prepared.exp.attack) is not None:
        for name, model in named.items():
            load(prepared.learner, model)
            found = {**scores[name].get("tests", {}), **attack.tests(prepared.attacked_run)}
            scores[name] |= {"tests": found} if found else {}
    routing = prepared.routing({slot: models[slot] for slot in prepared.slots})
    if routing is not None:
        scores[ROUTED] = score(
            prepared.learner, prepared.fed, models[next(iter(prepared.slots))], eval_models=routing
        )
        scores |= {
            one.key: scores.pop(one.key)
            for one in prepared.exp.method.averages
            if one.key in scores
        }
    if prepared.center(t + 1, models) is None:
        scores[SLOTS] = _means({slot: scores[slot] for slot in several}, _examples(prepared))
    noted = _notes(new, len(prepared.slots) > 1) | prepared.exp.topology.metrics(
        prepared.clients, t
    )
    row = {"round": t + 1, **headline_model(scores), **noted, "train_loss": loss_of(new)}
    if several and "clients" in row:
        counts = {slot: len(clients) for slot, clients in several.items()}
        row["clients"] = _means(
            {slot: {"clients": scores[slot]["clients"]} for slot in several}, counts
        )["clients"]
    row |= {} if attack is None else attack.measure(dict(averages.get(ATTACK, {})))
    for average in prepared.exp.method.averages:
        row |= average.scores(averages[average.key])
    return row


def headline_model(scores: dict[str, Scores]) -> Row:
    """The scores that count, those of the last shadow if there is one, and beside them all of
    them."""
    name = list(scores)[-1]
    return {**scores[name], "model": name, "models": scores}


def loss_of(new: Mapping[str, StepResult]) -> float:
    """The mean training loss of a round, by what the replies of each slot weigh."""
    if len(new) == 1:
        return next(iter(new.values())).replies.loss
    return sum(one.replies.weight * one.replies.loss for one in new.values()) / sum(
        one.replies.weight for one in new.values()
    )


def _notes(new: Mapping[str, StepResult], several: bool) -> Row:
    """What the server's pieces have measured; with the slot if there are several."""
    notes = (
        (name, slot, value) for slot, one in new.items() for name, value in one.metrics.items()
    )
    return {f"{name}.{slot}" if several else name: value for name, slot, value in notes}


def _examples(prepared: PreparedRun) -> dict[str, int]:
    sizes = prepared.registry.sizes()
    return {
        slot: sum(sizes[client] for client in clients) for slot, clients in prepared.slots.items()
    }


def _means(scores: Mapping[str, Mapping[str, Any]], weights: Mapping[str, int]) -> dict[str, Any]:
    """The weighted means of numbers of the same name."""
    first, total = next(iter(scores.values())), sum(weights[slot] for slot in scores)
    names = [name for name, value in first.items() if isinstance(value, int | float)]
    return {
        name: sum(weights[slot] * one[name] for slot, one in scores.items()) / total
        for name in names
    }
