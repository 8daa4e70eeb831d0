"""The estimated time of a run before its first round, training and evaluation; remarks before a run.

Times are counted and not measured: `fedflat.client.cost_model` counts the operations of the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import fmean

import torch

from fedflat.client.cost_model import ForwardCost, forward_cost
from fedflat.client.evaluate import eval_batch_size
from fedflat.client.piece import ModelInfo
from fedflat.data.federation import DataSpec, Federation, PartitionedFederation
from fedflat.execution.client_pool import Executor
from fedflat.execution.client_states import usual_budget
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.population import clock_remark
from fedflat.experiments.prepare import attacked_run, describers_of
from fedflat.experiments.run_setup import RunSetup
from fedflat.server.client_selection import selected_clients
from fedflat.text_table import duration, size

FORWARD = 1 / 3
"""The time of a forward pass, as a share of that of a gradient."""
LOOKED_AT = 10
"""Clients whose work is counted, if not all sizes are known."""


@dataclass(frozen=True)
class RunCost:
    """Estimated seconds with one thread."""

    round: float
    """Training in a round."""
    evaluation: float
    """One evaluation of all models that the run reports."""

    @classmethod
    def of(cls, setup: RunSetup) -> RunCost:
        """Count the operations of a run. It does not depend on the clients of the first round, and
        so hardly on the seed."""
        forward = forward_cost(setup.job.learner)
        requests = setup.server.expected_clients() / setup.exp.rounds
        sizes = _sizes(setup)
        return cls(requests * request_seconds(setup, forward, sizes), _evaluation(setup, forward))


def request_seconds(
    setup: RunSetup, forward: ForwardCost, sizes: Sequence[tuple[int, int]]
) -> float:
    """Estimated seconds of one request with one thread, by clients and their numbers of
    examples."""
    local, cost = setup.exp.local, setup.exp.method.cost
    gradients, mean = request_gradients(setup, sizes), fmean(size for _, size in sizes)
    used = min(local.batch_size, local.virtual or mean)
    return forward.seconds(gradients, gradients * used + cost.full_gradients * mean)


def request_gradients(setup: RunSetup, sizes: Sequence[tuple[int, int]]) -> float:
    """The number of gradients of one request, by clients and their numbers of examples."""
    local, cost = setup.exp.local, setup.exp.method.cost
    steps = fmean(local.planned_steps(0, client, size) for client, size in sizes)
    return steps * (cost.gradients * cost.local_trainings)


def _sizes(setup: RunSetup) -> list[tuple[int, int]]:
    """Clients and their numbers of examples: of all clients, if that takes no time."""
    registry = setup.registry
    if setup.exp.local.orders is not None:  # known of these clients only
        return [(client, registry.size(client)) for client in setup.exp.local.orders[0]]
    if isinstance(setup.fed, PartitionedFederation):
        return list(enumerate(setup.fed.sizes()))
    return [(client, registry.size(client)) for client in registry.clients[:LOOKED_AT]]


def _evaluation(setup: RunSetup, forward: ForwardCost) -> float:
    counts = [tested(len(data), setup.exp) for data in setup.fed.tests.values()]
    batches = sum(ceil(count / eval_batch_size(setup.fed.shape)) for count in counts)
    own = _own_tests(setup.fed) if setup.registry.clients_have_tests else []
    slots = setup.server.reported_slots if setup.server.groups_known else ()
    models = len(slots) + 1 + len(setup.exp.method.averages)
    return models * FORWARD * forward.seconds(batches + len(own), sum(counts) + sum(own))


def tested(count: int, exp: Experiment) -> int:
    """The number of examples of a test set that a run is evaluated on."""
    return min(count, exp.evaluate.examples or count)


def _own_tests(fed: Federation) -> list[int]:
    """The numbers of the clients' own test examples, if they are known here."""
    return [len(part) for part in fed.held_out or ()]


def affordable(experiments: Sequence[Experiment], costs: Sequence[RunCost]) -> list[Experiment]:
    """The experiments of a study, with evaluations that each of them can afford.

    Those with the same rounds are evaluated in the same rounds, so that their scores compare.
    """
    most: dict[tuple[object, ...], RunCost] = {}
    for exp, cost in zip(experiments, costs, strict=True):
        known = most.get(_alike(exp), cost)
        most[_alike(exp)] = RunCost(
            min(known.round, cost.round), max(known.evaluation, cost.evaluation)
        )
    return [with_schedule(exp, most[_alike(exp)]) for exp in experiments]


def with_schedule(exp: Experiment, cost: RunCost) -> Experiment:
    """The experiment with evaluations that it can afford."""
    schedule = exp.evaluate.affordable(exp.rounds, cost.round, cost.evaluation)
    return replace(exp, evaluate=schedule)


def _alike(exp: Experiment) -> tuple[object, ...]:
    return exp.rounds, exp.evaluate, exp.evaluate.defaults


def estimate(runs: Sequence[tuple[Experiment, RunCost]], executor: Executor) -> str:
    """A sentence: how long runs may take one after the other, and when they are evaluated."""
    at_once = parallel(executor)
    counts = [len(exp.evaluate.rounds(exp.rounds)) for exp, _ in runs]
    training = sum(exp.rounds * cost.round for exp, cost in runs) / at_once
    evaluation = (
        sum(count * cost.evaluation for count, (_, cost) in zip(counts, runs, strict=True))
        / at_once
    )
    total = sum(counts)
    text = (
        f"estimated time, roughly {about(training + evaluation)}: training {about(training)}, "
        f"{total:,} evaluation{'s' if total > 1 else ''} {about(evaluation)}"
    )
    same = {(exp.evaluate.every, exp.evaluate.last, exp.rounds) for exp, _ in runs}
    if len(same) == 1:
        every, last, rounds = same.pop()
        text += f" ({when(every, min(last, rounds), rounds)})"
    return text


def parallel(executor: Executor) -> int:
    """About how many cores an executor uses."""
    return max(1, getattr(executor, "workers", None) or 0, getattr(executor, "threads", None) or 0)


def when(every: int, last: int, rounds: int) -> str:
    """The rounds of evaluations in words.

    >>> when(1, 10, 100)
    'after every round'
    >>> when(10, 9, 100)
    'every 10 rounds and after each of the last 9'
    >>> when(100, 1, 100)
    'after the last round'
    """
    if every == 1 or last == rounds:
        return "after every round"
    if every >= rounds:
        return "after the last round" if last == 1 else f"after each of the last {last} rounds"
    return f"every {every} rounds" + (f" and after each of the last {last}" if last > 1 else "")


def about(seconds: float) -> str:
    """An estimated time for people.

    >>> about(0.2), about(75)
    ('less than 1s', '1m15s')
    """
    return duration(seconds) if seconds >= 1 else "less than 1s"


def remarks(setup: RunSetup, state_memory: int | None = None) -> list[str]:
    """Sentences for the user; ``state_memory`` as in `train`."""
    exp, pieces = setup.exp, setup.job.pieces
    model = ModelInfo(
        pieces, setup.job.learner.flat.module, setup.job.learner.flat.layout, exp.task
    )
    found = [
        setup.fed.remark,
        untrained_classes(setup),
        exp.task.remark(setup.fed),
        *(piece.remark(model) for piece in pieces),
    ]
    server = setup.server
    if exp.attack is not None and server.groups_known:  # otherwise attackers are not known yet
        attacked = attacked_run(exp, setup.fed, setup.job.learner, server.population)
        found.append(exp.attack.remark(attacked))
    if nbytes := client_state_bytes(setup):
        budget = usual_budget() if state_memory is None else state_memory
        fits = nbytes <= budget
        where = "kept in memory" if fits else f"{size(budget)} kept in memory, the rest on disk"
        if not setup.fed.here:
            where = "each its own part on its own disk"
        found.append(f"clients will remember up to {size(nbytes)} in all, {where}")
    if exp.clock is not None and server.groups_known:
        found.append(clock_remark(exp, server.population, selected_clients(server.select(0))))
    found += [
        f"before the first round every client is asked for {one}: {one.reveals}"
        for one in describers_of(setup.exp, setup.job)
    ]
    return [text for text in found if text]


def untrained_classes(setup: RunSetup) -> str:
    """A sentence if the test set has classes that no client trains on; else ""."""
    fed = setup.fed
    if not (isinstance(fed, PartitionedFederation) and fed.here) or fed.train.unlabelled:
        return ""
    if not (fed.train.has_classes and fed.test.examples.has_classes and setup.exp.task.classifies):
        return ""
    trained = torch.bincount(fed.train.labels[torch.cat(list(fed.parts))], minlength=fed.classes)
    tested = fed.test.counts(fed.classes)
    count = min(len(trained), len(tested))
    lost = torch.nonzero((tested[:count] > 0) & (trained[:count].cpu() == 0)).flatten().tolist()
    if not lost:
        return ""
    known = setup.exp.on.class_names()
    names = [known[place] if place < len(known) else str(place) for place in lost]
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    examples = int(tested[lost].sum())
    return (
        f"warning: no client trains on {'a class' if len(names) == 1 else 'classes'} of the test "
        f"set: {', '.join(names[:5])}{more} ({examples} test example{'s' if examples > 1 else ''})"
    )


def client_state_bytes(setup: RunSetup) -> int:
    """Bytes of the state that all clients together keep at the end of the run."""
    exp = setup.exp
    vectors = exp.method.cost.client_state + sum(
        average.client_vectors for average in exp.method.averages
    )
    trained = min(setup.registry.population, setup.server.expected_clients())
    return trained * vectors * setup.job.learner.flat.layout.dim * setup.job.learner.dtype.itemsize


def partition_notes(spec: DataSpec, fed: Federation | None = None) -> list[str]:
    """The notes of a data set's partitions (`Partition.note`), for output beside results.

    They have the classes per client if ``fed`` is given.
    """
    partitions = [partition for partition in spec.partitions() if partition.note()]
    if not partitions:
        return []
    counted = fed is not None and fed.here and fed.data(0).examples.has_classes
    mean = fed.skew().classes_mean if fed is not None and counted else None
    return list(dict.fromkeys(partition.note(mean) for partition in partitions))
