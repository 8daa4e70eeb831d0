"""What is told of a run: its models by name, their scores, and which of them counts.

A run reports its last shadow; without one the server's model; if the server has several, the model that stands for all
of them, and beside it each of them under the name of its slot, if it is of interest by itself. Where no model stands
for all, the scores that count are the means over the slots by their clients' examples, under "slots", and the file of
the reported model is that of the slot with the most examples. Where the topology says which slot's model a test example
is for (`Topology.route`), the scores that count are those of all examples, each by its own model, under "routed". What
clients score on their own test parts is, in each of these cases, the mean over the clients of the model of their own
slot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn

from fedflat.attacks.attack import ATTACK
from fedflat.engine.flat import Model
from fedflat.executors.crew import Crew
from fedflat.executors.memories import ClientStates
from fedflat.folder.diary import Row
from fedflat.running.evaluate import Scores, evaluate, load, score
from fedflat.running.model_files import Named, in_memory
from fedflat.running.prepare import Ready
from fedflat.running.state import Run
from fedflat.server.piece import Stepped
from fedflat.server.shadows import Notes
from fedflat.topology.topology import SERVER

ROUTED = "routed"
"""The name under which the scores are told of test examples that are each judged by the model they are for."""
SLOTS = "slots"
"""The name under which the means over slots are told, where no model stands for all."""


def models_of(
    ready: Ready, done: int, models: Mapping[str, Model], shadows: Mapping[str, Notes]
) -> dict[str, Model]:  # fmt: skip
    """The server's models and those of the shadows that have begun, the reported one last."""
    centre = ready.centre(done, models)
    named = {slot: models[slot] for slot in ready.told}
    if centre is None:
        examples = _examples(ready)
        largest = max(named, key=lambda slot: examples[slot])
        return {**{slot: model for slot, model in named.items() if slot != largest}, largest: named[largest]}
    named[SERVER] = centre
    for shadow in ready.exp.method.shadows:
        params = shadow.params(shadows[shadow.key], ready.scene, centre.params)
        if params is not None:
            named[shadow.key] = replace(centre, params=params)
    return named


def named_models(ready: Ready, run: Run) -> dict[str, Named]:
    """All models by their module's own names, the reported one last."""
    fresh = ready.learner.another()
    return {name: fresh.named(model) for name, model in models_of(ready, run.round, run.models, run.shadows).items()}


def modules(ready: Ready, run: Run) -> Callable[[str | None], nn.Module]:
    """What makes any of the models, by name, a module."""
    return partial(in_memory, ready.learner, models_of(ready, run.round, run.models, run.shadows))


def heard(ready: Ready, t: int, shadows: Mapping[str, Notes]) -> Row:
    """What is written of round ``t``, be models evaluated or not: what visits have told protocols by the way."""
    told = [protocol.scores(shadows[protocol.key]) for protocol in ready.exp.method.protocols]
    return {"round": t + 1, **{name: score for one in told for name, score in one.items()}} if told else {}


def evaluated(
    ready: Ready, t: int, new: Mapping[str, Stepped], models: Mapping[str, Model], shadows: Mapping[str, Notes],
    crew: Crew, clients: ClientStates,
) -> Row:  # fmt: skip
    """What is written of round ``t`` if it is due: the scores of all models, and what the method has measured."""
    several = ready.told
    named = models_of(ready, t + 1, models, shadows)
    fitting = ready.fitting(clients)
    own = {name: ready.own_tests(crew, fitting, several.get(name)) for name in named}
    scores = evaluate(ready.learner, ready.fed, named, own.get, fitting)
    if (attack := ready.exp.attack) is not None:
        for name, model in named.items():
            load(ready.learner, model)
            found = {**scores[name].get("tests", {}), **attack.tests(ready.victim)}
            scores[name] |= {"tests": found} if found else {}
    routing = ready.routing({slot: models[slot] for slot in ready.slots})
    if routing is not None:
        scores[ROUTED] = score(ready.learner, ready.fed, models[next(iter(ready.slots))], fitting=routing)
        scores |= {one.key: scores.pop(one.key) for one in ready.exp.method.shadows if one.key in scores}
    if ready.centre(t + 1, models) is None:
        scores[SLOTS] = _means({slot: scores[slot] for slot in several}, _examples(ready))
    noted = _notes(new, len(ready.slots) > 1) | ready.exp.topology.notes(ready.crowd, t)
    row = {"round": t + 1, **reported(scores), **noted, "train_loss": loss_of(new)}
    if several and "clients" in row:
        counts = {slot: len(clients) for slot, clients in several.items()}
        row["clients"] = _means({slot: {"clients": scores[slot]["clients"]} for slot in several}, counts)["clients"]
    row |= {} if attack is None else attack.tells(dict(shadows.get(ATTACK, {})))
    for shadow in ready.exp.method.shadows:
        row |= shadow.scores(shadows[shadow.key])
    return row


def reported(scores: dict[str, Scores]) -> Row:
    """The scores that count, those of the last shadow if there is one, and beside them all of them."""
    name = list(scores)[-1]
    return {**scores[name], "model": name, "models": scores}


def loss_of(new: Mapping[str, Stepped]) -> float:
    """The mean training loss of a round, by what the replies of each slot weigh."""
    if len(new) == 1:
        return next(iter(new.values())).replies.loss
    return sum(one.replies.weight * one.replies.loss for one in new.values()) / sum(
        one.replies.weight for one in new.values()
    )


def _notes(new: Mapping[str, Stepped], several: bool) -> Row:
    """What the server's pieces have measured; with the slot if there are several."""
    notes = ((name, slot, value) for slot, one in new.items() for name, value in one.notes.items())
    return {f"{name}.{slot}" if several else name: value for name, slot, value in notes}


def _examples(ready: Ready) -> dict[str, int]:
    sizes = ready.roster.sizes()
    return {slot: sum(sizes[client] for client in clients) for slot, clients in ready.slots.items()}


def _means(scores: Mapping[str, Mapping[str, Any]], weights: Mapping[str, int]) -> dict[str, Any]:
    """The weighted means of numbers of the same name."""
    first, total = next(iter(scores.values())), sum(weights[slot] for slot in scores)
    names = [name for name, value in first.items() if isinstance(value, int | float)]
    return {name: sum(weights[slot] * one[name] for slot, one in scores.items()) / total for name in names}
