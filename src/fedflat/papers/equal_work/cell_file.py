"""The file of a finished cell: its trials, the choice, and the curve of each seed.

Means, intervals and readings are not stored. They are computed from the curves, so a page cannot
disagree with them. A file carries two digests: one of its content, and one of the grid, the data
and the budget it was made for. A file that was edited, or made for another grid, is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedflat.core.json_schema import NUMBER, damaged, read_checked
from fedflat.experiments.run_folder.signed import verified, write_signed
from fedflat.files import Damaged
from fedflat.papers.equal_work.grid import SEEDS, Cell, cells

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
    """Read and check the file of a cell."""
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
