"""Progress and current score of each cell, from the files of its runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from fedflat.errors import RunError
from fedflat.experiments.run_folder.checkpoints import Store
from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.run_folder.record import read_record, read_rows
from fedflat.papers.presets.preset import reference
from fedflat.papers.reproduce.flatness_file import measured
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
    unreached: bool = False
    """True if the target is known and was not reached in the stored rounds."""


@dataclass(frozen=True)
class Goal:
    """The target of a cell, and the reference of its cost and speed-up."""

    score: float
    """The score to reach, in its unit. NaN if it is not known yet."""
    final: bool
    """True if the score does not change any more."""
    rounds: int
    """Rounds of the reference."""
    traffic: float
    """Bytes that the reference sends and receives in one round. NaN if it is not known yet."""

    def number(
        self, entry: PlannedCell, curve: list[tuple[int, float]], rows: Sequence[Row]
    ) -> float:
        """Return the number of a cell. NaN if the target was not reached."""
        reached = (r for r, value in curve if entry.headline.reaches(value, self.score))
        first = next(reached, None)
        if first is None:
            return math.nan
        if entry.cell.measure == "rounds":
            return float(first)
        if entry.cell.measure == "speedup":
            return self.rounds / first
        sent = next(_traffic(row) for row in rows if row["round"] == first)
        return sent / (self.rounds * self.traffic)


@dataclass(frozen=True)
class CellStatus:
    entry: PlannedCell
    seeds: list[Seed]
    goal: Goal | None = None
    """The target, if the number of the cell is what it took to reach one."""

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
    def unreached(self) -> bool:
        """True if a seed has not reached its target."""
        return any(seed.unreached for seed in self.seeds)

    @property
    def reached_by(self) -> str:
        """How many seeds have reached the target: ``1 of 2``."""
        count = sum(not math.isnan(seed.value) for seed in self.seeds)
        return f"{count} of {len(self.seeds)}"

    @property
    def whole(self) -> bool:
        """True if our number is that of the paper's whole schedule.

        The rounds to a target that is known are final as soon as it is reached.
        """
        if self.goal is None:
            return self.entry.whole
        decided = self.entry.whole or (self.reached and not self.unreached)
        return self.goal.final and decided and not self.entry.stretched

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


def cell_statuses(entries: Sequence[PlannedCell], folder: Path) -> list[CellStatus]:
    """Read the runs of all cells. Targets that are another cell's score are looked up."""
    known = {
        entry.cell.name: cell_status(entry, folder)
        for entry in entries
        if not entry.cell.needs_target
    }
    statuses = []
    for entry in entries:
        if entry.cell.needs_target:
            statuses.append(cell_status(entry, folder, _goal(entry, known, folder)))
        else:
            statuses.append(known[entry.cell.name])
    return statuses


def cell_status(entry: PlannedCell, folder: Path, goal: Goal | None = None) -> CellStatus:
    seeds = [
        _seed(entry, folder / place, seed, place, goal)
        for seed, place in sorted(entry.folders.items())
    ]
    return CellStatus(entry, seeds, goal)


def _goal(entry: PlannedCell, known: Mapping[str, CellStatus], folder: Path) -> Goal:
    factor, name = reference(entry.cell.target)
    if not name:
        assert isinstance(entry.cell.target, int | float)
        traffic = _traffic_per_round(entry, folder)
        return Goal(float(entry.cell.target), True, entry.cell.rounds, traffic)
    other = known.get(name)
    if other is None:  # its run was not selected
        return Goal(math.nan, False, entry.cell.rounds, math.nan)
    final = other.whole and other.reached and not other.diverged
    traffic = _traffic_per_round(other.entry, folder)
    return Goal(factor * other.value, final, other.entry.cell.rounds, traffic)


def _traffic_per_round(entry: PlannedCell, folder: Path) -> float:
    """Return the mean over the seeds whose runs can be read. NaN if there is none."""
    found = []
    for place in entry.folders.values():
        try:
            rows = read_rows(folder / place) if (folder / place / "run.json").exists() else []
        except RunError:
            rows = []
        found += [_traffic(rows[-1]) / rows[-1]["round"]] if rows else []
    return mean(found) if found else math.nan


def _traffic(row: Row) -> float:
    return float(row.get("down", math.nan)) + float(row.get("up", math.nan))


def _seed(entry: PlannedCell, run: Path, seed: int, place: str, goal: Goal | None) -> Seed:
    if not (run / "run.json").exists():
        return Seed(seed, place, "waiting", 0, 0.0, [], math.nan, 0)
    try:
        record = read_record(run)
        rows = [row for row in read_rows(run, record=record) if row["round"] <= entry.stop]
    except RunError as error:  # the other runs are still shown
        return Seed(seed, place, "damaged", 0, 0.0, [], math.nan, 0, str(error))
    curve = [
        (row["round"], value) for row in rows if not math.isnan(value := measurement(entry, row))
    ]
    saved = max(Store(run / "checkpoint").rounds(), default=0)
    done = max(saved, rows[-1]["round"] if rows else 0)
    seconds = float(rows[-1].get("seconds", 0.0)) if rows else 0.0
    status = record.status
    if entry.cell.needs_curvature:
        found = measured(run, entry)
        value = math.nan if found is None else found
        return Seed(seed, place, status, done, seconds, [], value, int(found is not None))
    if goal is not None:
        value = goal.number(entry, curve, rows)
        missed = math.isnan(value) and not math.isnan(goal.score)
        return Seed(seed, place, status, done, seconds, [], value, len(curve), unreached=missed)
    counting = final_values(entry, curve)
    value = mean(counting) if counting else math.nan
    return Seed(seed, place, status, done, seconds, curve, value, len(counting))


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
    if entry.cell.at < 1:
        whole = entry.stop if entry.stretched else entry.cell.rounds
        end = max(round(entry.cell.at * whole), 1)
        if not any(round >= end for round, _ in curve):
            return []
        curve = [(round, value) for round, value in curve if round <= end]
    if not curve:
        return []
    if entry.cell.measure == "personal":
        return [entry.headline.best(value for _, value in curve)]
    newest = curve[-1][0]
    return [value for round, value in curve if round > newest - entry.last]
