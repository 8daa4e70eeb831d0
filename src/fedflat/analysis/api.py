"""Analyses in Python: ``analyse(result, curvature=True, surface=True)``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fedflat.analysis.analysis import Scope, analyses
from fedflat.errors import SettingError, nearest, shown

if TYPE_CHECKING:
    from fedflat.analysis.loaded_run import LoadedRun
    from fedflat.experiments.results.results import Result


def analyse(
    run: str | Path | Result,
    *,
    model: str | None = None,
    where: str = "test",
    examples: int | None = 1000,
    seed: int = 0,
    **wanted: bool | Mapping[str, Any],
) -> dict[str, Any]:
    """Analyse a run and store the results in its folder, where the report finds them.

    ``analyse("runs/mine", curvature=True, surface=True)`` computes the largest eigenvalues of the
    Hessian and a loss surface. Results that exist are not computed again. Nothing is stored for a
    run in memory.

    Returns the results by the names of the analyses.

    run
        A run folder, or the result of a run. Analyses that train clients need a folder.
    model
        Name of the model, such as ``"server"`` or ``"swa"``; None: the one that the run reports.
    where
        The examples: ``"test"``, ``"train"`` or ``"client:K"``.
    examples
        Number of examples, drawn by the seed; None: all.
    seed
        Seed of subsets, directions and random vectors.
    wanted
        Analyses by name: True, or a dict of options such as ``curvature={"k": 10}``.
        `fedflat list analyses` prints the names.
    """
    known = analyses()
    for name in wanted:
        if name not in known:
            raise SettingError(
                f"analyse: there is no analysis {name!r}.{nearest(name, known)} "
                f"Known: {', '.join(known)}."
            )
    chosen = {name: value for name, value in wanted.items() if value is not False}
    if not chosen:
        raise SettingError("analyse: no analysis was named. Name one, such as curvature=True.")
    for name, value in chosen.items():
        if value is not True and not isinstance(value, Mapping):
            raise SettingError(
                f"analyse: {name} must be True or a dict of options, found {shown(value)}."
            )
    scope = Scope(model=model, where=where, examples=examples, seed=seed)
    found = {}
    with _opened(run) as runs:
        for name, value in chosen.items():
            options = dict(value) if isinstance(value, Mapping) else {}
            for _, analysis, loaded in known[name].from_values(True, options).jobs(runs):
                found[name] = analysis.analyse(loaded, scope, lambda done, total, what: None).result
    return found


@contextmanager
def _opened(run: str | Path | Result) -> Iterator[Sequence[LoadedRun]]:
    """The runs in a folder, or the run in memory with a temporary folder for its analyses."""
    from fedflat.analysis.loaded_run import loaded_runs
    from fedflat.analysis.run_in_memory import RunInMemory

    if isinstance(run, str | Path) or run.folder is not None:
        yield loaded_runs([folder_of(run)], lambda sentence: None)
        return
    if run.models is None or run.models.in_memory is None:
        raise SettingError(
            "analyse: this result has numbers only, without models and data. Analyse the folder of "
            "the run, or run it again."
        )
    with TemporaryDirectory() as place:
        yield [RunInMemory(Path("the run in memory"), last=run.models.in_memory, place=Path(place))]


def folder_of(run: str | Path | Result) -> Path:
    """The folder of a run; an error if its results are in memory only."""
    folder = run if isinstance(run, str | Path) else run.folder
    if folder is None:
        raise SettingError(
            "this result is in memory only. Give the run a folder: run(..., out='runs/mine')."
        )
    return Path(folder)
