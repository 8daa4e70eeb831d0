"""Remarks for the user about a run before its first round, and about its partition."""

from __future__ import annotations

import torch

from fedflat.client.piece import ModelInfo
from fedflat.data.federation import DataSpec, Federation, PartitionedFederation
from fedflat.execution.client_states import usual_budget
from fedflat.experiments.population import clock_remark
from fedflat.experiments.prepare import attacked_run, describers_of
from fedflat.experiments.run_setup import RunSetup
from fedflat.server.client_selection import selected_clients
from fedflat.text_table import size


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
