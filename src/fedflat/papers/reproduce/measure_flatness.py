"""Measure the curvature that cells report, on the models of a finished or stopped run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedflat.analysis.analysis import OnProgress, Scope
from fedflat.analysis.kinds.curvature import CurvatureAnalysis
from fedflat.analysis.kinds.local_global import LocalGlobalAnalysis
from fedflat.analysis.loaded_run import LoadedRun
from fedflat.papers.presets.preset import OF_CLIENTS
from fedflat.papers.reproduce.flatness_file import (
    key_of,
    measured,
    read_flatness,
    write_flatness,
)
from fedflat.papers.reproduce.plan import PlannedCell

EIGENVALUES = 5
"""For lambda_1 and for lambda_1/lambda_5."""
PROBES = 100
"""Hessian products for the trace."""


def measure_flatness(
    run: Path, entries: Iterable[PlannedCell], until: int, on_progress: OnProgress
) -> None:
    """Measure what the cells of a run report and what is not measured yet.

    The model is that after round `until`: cells of an earlier round are left out. An interrupted
    measurement goes on where it was.
    """
    wanted: dict[str, list[PlannedCell]] = {}
    for entry in entries:
        if entry.stop == until and measured(run, entry) is None:
            wanted.setdefault(str(key_of(entry)), []).append(entry)
    if not wanted:
        return
    loaded = LoadedRun(run)
    if loaded.record.status == "diverged":
        return
    for group in wanted.values():
        name = [model for model in group[0].models if model in loaded.models][-1]
        scope = Scope(model=name, where=group[0].cell.where, examples=group[0].examples)
        values = _values(loaded, scope, {entry.cell.measure for entry in group}, on_progress)
        key = key_of(group[0])
        rows = read_flatness(run)
        old = next((row for row in rows if row | key == row), None)
        rows = [row for row in rows if row is not old]
        known: dict[str, Any] = old["values"] if old else {}
        write_flatness(run, [*rows, {**key, "model": name, "values": {**known, **values}}])


def _values(
    loaded: LoadedRun, scope: Scope, measures: set[str], on_progress: OnProgress
) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    if measures - set(OF_CLIENTS):
        probes = PROBES if "trace" in measures else 0
        analysis = CurvatureAnalysis(k=EIGENVALUES, probes=probes)
        found = analysis.analyse(loaded, scope, on_progress).result
        values |= {name: found.get(name) for name in ("lambda_1", "ratio")}
        if probes:
            values["trace"] = found["trace"]["mean"]
    if measures & set(OF_CLIENTS):
        found = LocalGlobalAnalysis().analyse(loaded, scope, on_progress).result
        values |= {"local_lambda_1": found["local"], "global_lambda_1": found["global"]}
    return values
