"""Progress and current score of each cell, from the files of its runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from fedflat.errors import RunError
from fedflat.experiments.run_folder.checkpoints import Store
from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.run_folder.record import read_facts, read_rows
from fedflat.papers.reproduce.plan import PlannedCell


@dataclass(frozen=True)
class Seed:
    """One run of a cell."""

    seed: int
    folder: str
    status: str
    """"waiting", "running", "done", "diverged" or "damaged"."""
    round: int
    """Rounds that are stored."""
    seconds: float
    """Time of these rounds."""
    curve: list[tuple[int, float]]
    """Round and score in its unit, such as per cent, for each evaluation up to the stop."""
    value: float
    """Mean over the evaluations that count, in the same unit. NaN if there is none."""
    evaluations: int
    """Number of these evaluations."""
    problem: str = ""
    """Why the run cannot be read. Empty if it can."""


@dataclass(frozen=True)
class CellStatus:
    """A cell with its runs."""

    entry: PlannedCell
    seeds: list[Seed]

    @property
    def value(self) -> float:
        """Our number: the mean over seeds that have one. NaN if there is none."""
        known = [seed.value for seed in self.seeds if not math.isnan(seed.value)]
        return mean(known) if known else math.nan

    @property
    def spread(self) -> float:
        """Standard deviation over seeds. NaN for fewer than two."""
        known = [seed.value for seed in self.seeds if not math.isnan(seed.value)]
        return stdev(known) if len(known) > 1 else math.nan

    @property
    def diverged(self) -> bool:
        """True if a seed has diverged."""
        return any(seed.status == "diverged" for seed in self.seeds)

    @property
    def damaged(self) -> bool:
        """True if a run cannot be read."""
        return any(seed.problem for seed in self.seeds)

    @property
    def reached(self) -> bool:
        """True if every seed has reached its stop or has diverged."""
        return all(
            seed.status in ("done", "diverged") or seed.round >= self.entry.stop
            for seed in self.seeds
        )

    @property
    def round(self) -> int:
        """Rounds that all seeds have done, up to the stop."""
        return min(min(seed.round for seed in self.seeds), self.entry.stop)

    @property
    def share(self) -> float:
        """Share of the paper's rounds that is done, over all seeds.

        Stretched runs count their own rounds.
        """
        whole = self.entry.stop if self.entry.stretched else self.entry.cell.rounds
        return mean(min(seed.round, self.entry.stop) for seed in self.seeds) / whole


def cell_status(entry: PlannedCell, folder: Path) -> CellStatus:
    """Read the runs of a cell."""
    return CellStatus(
        entry,
        [
            _seed(entry, folder / place, seed, place)
            for seed, place in sorted(entry.folders.items())
        ],
    )


def _seed(entry: PlannedCell, run: Path, seed: int, place: str) -> Seed:
    if not (run / "run.json").exists():
        return Seed(seed, place, "waiting", 0, 0.0, [], math.nan, 0)
    try:
        facts = read_facts(run)
        rows = [row for row in read_rows(run, facts=facts) if row["round"] <= entry.stop]
    except RunError as error:  # the other runs are still shown
        return Seed(seed, place, "damaged", 0, 0.0, [], math.nan, 0, str(error))
    curve = [
        (row["round"], value) for row in rows if not math.isnan(value := measurement(entry, row))
    ]
    counting = final_values(entry, curve)
    saved = max(Store(run / "checkpoint").rounds(), default=0)
    done = max(saved, rows[-1]["round"] if rows else 0)
    seconds = float(rows[-1].get("seconds", 0.0)) if rows else 0.0
    value = mean(counting) if counting else math.nan
    return Seed(seed, place, str(facts["status"]), done, seconds, curve, value, len(counting))


def measurement(entry: PlannedCell, row: Row) -> float:
    """Return the score of the cell's model in a row, in its unit. NaN if there is none."""
    cell_headline = entry.headline
    if entry.cell.measure == "personal":
        return cell_headline.factor * float(row.get("personal", math.nan))
    models: dict[str, Any] = row.get("models", {})
    present = [name for name in entry.models if name in models]
    scores = models[present[-1]] if present else {}
    scores = scores.get("tests", {}).get(entry.cell.test, {}) if entry.cell.test else scores
    return cell_headline.factor * float(scores.get(cell_headline.name, math.nan))


def final_values(entry: PlannedCell, curve: list[tuple[int, float]]) -> list[float]:
    """Return the scores that count: those of the last rounds, or the best personal one."""
    if not curve:
        return []
    if entry.cell.measure == "personal":
        return [entry.headline.best(value for _, value in curve)]
    newest = curve[-1][0]
    return [value for round, value in curve if round > newest - entry.last]
