"""What a user should know of a run before its first round."""

from __future__ import annotations

from fedflat.client.piece import ModelInfo
from fedflat.execution.client_states import usual_budget
from fedflat.experiments.devices import pace
from fedflat.experiments.population import selected_clients
from fedflat.experiments.prepare import PreparedRun
from fedflat.experiments.results.tables import size


def remarks(prepared: PreparedRun, state_memory: int | None = None) -> list[str]:
    """Sentences for the user; ``state_memory`` as in `train`."""
    exp, pieces = prepared.exp, prepared.job.pieces
    model = ModelInfo(pieces, prepared.learner.flat.module, prepared.info.layout, exp.task)
    found = [
        prepared.fed.remark,
        exp.task.remark(prepared.fed),
        *(piece.remark(model) for piece in pieces),
    ]
    expected = prepared.with_guessed_groups
    if exp.attack is not None and expected is prepared:  # otherwise attackers are not known yet
        found.append(exp.attack.remark(prepared.attacked_run))
    if nbytes := client_state_bytes(prepared):
        budget = usual_budget() if state_memory is None else state_memory
        fits = nbytes <= budget
        where = "kept in memory" if fits else f"{size(budget)} kept in memory, the rest on disk"
        found.append(f"clients will remember up to {size(nbytes)} in all, {where}")
    if exp.clock is not None:
        found.append(pace(exp, prepared.clients, selected_clients(expected.server.select(0))))
    found += [
        f"before round 0 every client is asked for {one}: {one.reveals}"
        for one in prepared.describers
    ]
    return [text for text in found if text]


def client_state_bytes(prepared: PreparedRun) -> int:
    """Bytes of the state that all clients together keep at the end of the run."""
    exp = prepared.exp
    vectors = exp.method.cost.client_state + sum(
        average.client_vectors for average in exp.method.averages
    )
    trained = min(
        prepared.registry.population,
        exp.topology.expected_clients(prepared.with_guessed_groups.clients),
    )
    return trained * vectors * prepared.info.layout.dim * prepared.learner.dtype.itemsize
