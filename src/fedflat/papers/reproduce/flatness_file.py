"""The curvature of a run's models, in a file beside the run's folder: ``seed-0-flatness.json``.

A row has the numbers of one model on one set of examples after one round.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedflat.core.json_schema import NUMBER, check
from fedflat.experiments.run_folder.schema import verified, write_signed
from fedflat.files import Damaged, read_json

if TYPE_CHECKING:
    from fedflat.papers.reproduce.plan import PlannedCell


Row = dict[str, Any]
SCHEMA = {
    "rows": [
        {
            "models": [str],
            "model": str,
            "set": str,
            "examples": (int, None),
            "round": int,
            "values": {"*": NUMBER},
        }
    ],
    "digest": str,
}


def flatness_path(run: Path) -> Path:
    """Return the path of the file of a run."""
    return run.parent / f"{run.name}-flatness.json"


def read_flatness(run: Path) -> list[Row]:
    """Return the rows of a run. A file that was changed or is missing has none."""
    try:
        content = read_json(flatness_path(run))
        check(content, SCHEMA)
        rows: list[Row] = verified(content)["rows"]
    except Damaged:
        return []
    return rows


def write_flatness(run: Path, rows: list[Row]) -> None:
    write_signed(flatness_path(run), {"rows": rows}, indent=1)


def key_of(entry: PlannedCell) -> Row:
    """Return what identifies the row of a cell."""
    return {
        "models": entry.models,
        "set": entry.cell.where,
        "examples": entry.examples,
        "round": entry.stop,
    }


def measured(run: Path, entry: PlannedCell) -> float | None:
    """Return the number of a cell, or None if it is not measured yet."""
    for row in read_flatness(run):
        if row | key_of(entry) == row and entry.cell.measure in row["values"]:
            value = row["values"][entry.cell.measure]
            return float("nan") if value is None else float(value)
    return None
