"""Run a cell: its trials, the choice, then the seeds. Killed at any time, it continues.

    FOLDER/CELL/definition      the digest of grid, data and budget
    FOLDER/CELL/trial-0/, ...   the trials
    FOLDER/CELL/seed-0/, ...    the runs of the chosen setting
    FOLDER/CELL.json            the finished cell: its trials, the choice, the curve of each seed

A seed stops at the round of equal gradients, where the curvature of its model is measured, and goes
on to the last round of the column.

Means, intervals and readings are not stored. They are computed from the curves, so a page cannot
disagree with them. A file carries two digests: one of its content, and one of the grid, the data
and the budget it was made for. A file that was edited, or made for another grid, is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from fedflat.analysis.analysis import Scope
from fedflat.analysis.kinds.curvature import CurvatureAnalysis
from fedflat.analysis.loaded_run import LoadedRun
from fedflat.core.json_schema import NUMBER, damaged, read_checked
from fedflat.data.info import VALIDATION
from fedflat.errors import RunError, shown
from fedflat.execution.in_process import InProcess
from fedflat.experiments.execution_config import ExecutionConfig, executor_text
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.record import read_record, read_rows
from fedflat.experiments.run_folder.schema import verified, write_signed
from fedflat.experiments.study import resume, run_one
from fedflat.files import Damaged, write_file
from fedflat.papers.equal_work.grid import SEEDS, TRIAL_SEED, Cell, cells
from fedflat.papers.reproduce.flatness_file import read_flatness, write_flatness
from fedflat.papers.reproduce.run_sharing import provenance

ADVICE = (
    "Remove it, and make the cell again with `fedflat reproduce flat/equal-gradients --cells NAME`."
)
SCHEMA = {
    "cell": str,
    "definition": str,
    "made": {"*": object},
    "trials": [{"method": str, "lr": float, "validation": NUMBER}],
    "chosen": (int, None),
    "seeds": [
        {
            "seed": int,
            "diverged": bool,
            "curve": [[NUMBER]],
            "drift": NUMBER,
            "lambda_1": NUMBER,
            "norm": NUMBER,
            "model": str,
        }
    ],
    "digest": str,
}
"""A point of a curve: round, accuracy in per cent, bytes sent and received."""


def best_trial(scores: Sequence[float | None]) -> int | None:
    """The place of the highest validation score, the first of equal ones; None: all diverged."""
    known = [(score, -place) for place, score in enumerate(scores) if score is not None]
    return -max(known)[1] if known else None


def write_cell(path: Path, content: dict[str, Any]) -> None:
    write_signed(path, content)


def read_cell(path: Path) -> dict[str, Any]:
    found = read_checked(path, SCHEMA, ADVICE)
    try:
        content = verified(found)
        _check(content, path.stem)
    except Damaged as error:
        raise damaged(path, error, ADVICE) from None
    return content


def _check(content: dict[str, Any], name: str) -> None:
    known = {cell.name: cell for cell in cells()}
    if content["cell"] != name or name not in known:
        raise Damaged(f"the file is called {name} and has the cell {content['cell']!r}")
    cell = known[name]
    if content["definition"] != cell.definition:
        raise Damaged("it was made for another grid, other data or another budget")
    if [(one["method"], one["lr"]) for one in content["trials"]] != cell.trials:
        raise Damaged("its trials are not those of the grid")
    if content["chosen"] != best_trial([one["validation"] for one in content["trials"]]):
        raise Damaged("its setting is not the one that the validation set chooses")
    expected = [] if content["chosen"] is None else list(SEEDS)
    if [one["seed"] for one in content["seeds"]] != expected:
        raise Damaged(f"its seeds are not {expected}")
    for one in content["seeds"]:
        rounds = [point[0] for point in one["curve"]]
        if not one["diverged"] and (not rounds or rounds[-1] != cell.column.rounds):
            raise Damaged(f"seed {one['seed']} has not ended")


def read_cells(folder: Path) -> dict[str, dict[str, Any]]:
    """All cells in a folder, by name, in the order of the table."""
    return {
        cell.name: read_cell(path) for cell in cells() if (path := cell_path(folder, cell)).exists()
    }


def cell_path(folder: Path, cell: Cell) -> Path:
    """Where the file of a cell is."""
    return folder / f"{cell.name}.json"


EXAMPLES = 1000
"""Test examples on which lambda_1 is measured."""
PrintLine = Callable[[str], object]


def run_cell(cell: Cell, folder: Path, print_line: PrintLine, checkpoint_every: float) -> Path:
    """Run what is missing of a cell, and write its file; return the path of the file.

    A finished cell is checked.
    """
    path, home = cell_path(folder, cell), folder / cell.name
    if path.exists():
        read_cell(path)
        print_line(f"{cell.name}: finished")
        return path
    _refuse_other_grid(cell, home)
    trials: list[dict[str, Any]] = []
    for place, (method, lr) in enumerate(cell.trials):
        exp = cell.experiment(method, lr, TRIAL_SEED, cell.readings["gradients"])
        result = _run(exp, home / f"trial-{place}", checkpoint_every)
        score = _validation(result)
        trials.append({"method": method, "lr": lr, "validation": score})
        shown = "diverged" if score is None else f"validation {score:.2f} %"
        print_line(f"{cell.name}: {method}, lr {lr:g}: {shown}")
    chosen = best_trial([one["validation"] for one in trials])
    seeds = []
    for seed in SEEDS if chosen is not None else ():
        one = trials[chosen or 0]
        exp = cell.experiment(one["method"], one["lr"], seed, cell.column.rounds)
        seeds.append(_seed(cell, exp, home / f"seed-{seed}", checkpoint_every))
        shown = "diverged" if seeds[-1]["diverged"] else f"test {seeds[-1]['curve'][-1][1]:.2f} %"
        print_line(f"{cell.name}: {one['method']}, lr {one['lr']:g}, seed {seed}: {shown}")
    content = {"cell": cell.name, "definition": cell.definition, "made": provenance()}
    write_cell(path, {**content, "trials": trials, "chosen": chosen, "seeds": seeds})
    return path


def _refuse_other_grid(cell: Cell, home: Path) -> None:
    """Write the digest of the grid into a new folder; refuse one with runs of another grid."""
    path = home / "definition"
    if not path.exists() and not any(home.glob("*/run.json")):
        home.mkdir(parents=True, exist_ok=True)
        write_file(path, cell.definition.encode())
    if not path.exists() or path.read_text() != cell.definition:
        raise RunError(
            f"{shown(home)} has runs of {cell.name} for another grid, other data or another "
            "budget. Remove it, or use another --out."
        )


def _run(exp: Experiment, place: Path, pause: float, until: int | None = None) -> Result:
    if (place / "run.json").exists():
        return resume(place, checkpoint_every=pause, until=until)[0]
    config = ExecutionConfig(record="drift", **executor_text(InProcess(1)))
    return run_one(exp, config, place, checkpoint_every=pause, until=until)


def _validation(result: Result) -> float | None:
    score = result.final(f"tests.{VALIDATION}.{result.headline.name}")
    usable = not result.diverged and math.isfinite(score)
    return result.headline.factor * score if usable else None


def _seed(cell: Cell, exp: Experiment, place: Path, pause: float) -> dict[str, Any]:
    stop = cell.readings["gradients"]
    flat = _curvature(place)
    if flat is None:
        result = _run(exp, place, pause, stop)
        flat = {} if result.diverged else _measured(place, stop)
    result = _run(exp, place, pause)
    record = read_record(place)
    window = range(stop - cell.column.window + 1, stop + 1)
    drift = [
        row["drift"]
        for row in read_rows(place, "recorded", record)
        if row["round"] in window and row.get("drift") is not None
    ]
    points = [
        [row["round"], round(100 * row["accuracy"], 4), row["down"] + row["up"]]
        for row in result.rows
        if math.isfinite(row["accuracy"])
    ]
    return {
        "seed": exp.seed,
        "diverged": result.diverged,
        "curve": points,
        "drift": mean(drift) if drift and all(map(math.isfinite, drift)) else None,
        "lambda_1": flat.get("lambda_1"),
        "norm": flat.get("norm"),
        "model": "" if result.diverged or record.end is None else _model_digest(record.end),
    }


def _model_digest(end: Any) -> str:
    return str(end.models[end.reported].digest)


def _curvature(place: Path) -> dict[str, Any] | None:
    rows = read_flatness(place)
    return dict(rows[0]["values"]) if rows else None


def _measured(place: Path, stop: int) -> dict[str, Any]:
    """Measure the model of a run that has just reached the round of equal gradients."""
    loaded = LoadedRun(place)
    scope = Scope(examples=EXAMPLES)
    found = CurvatureAnalysis(k=1).analyse(loaded, scope, lambda done, total, what: None).result
    values = {name: found.get(name) for name in ("lambda_1", "norm")}
    key = {"models": [loaded.reported], "set": "test", "examples": EXAMPLES, "round": stop}
    write_flatness(place, [{**key, "model": loaded.reported, "values": values}])
    return values
