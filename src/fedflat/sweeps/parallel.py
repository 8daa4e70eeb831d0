"""Run the runs of a study on several cores, each in its own process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedflat.errors import RunError
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.record import read_record
from fedflat.experiments.run_folder.study_file import PlannedRun, is_run, read_plan
from fedflat.papers.reproduce.scheduler import RunScheduler
from fedflat.text_table import duration

NICE = 0
PAUSE = 30.0
"""Most seconds between two notes."""


@dataclass(frozen=True)
class StudyRuns:
    folder: Path
    runs: Sequence[PlannedRun]
    stops: Mapping[str, int] | None = None
    """The round after which a run stops for now, by folder; None: its last."""

    def until(self, job: PlannedRun) -> int:
        """The round after which a run stops."""
        return job.experiment.rounds if self.stops is None else self.stops[job.folder]

    def waiting(self) -> list[PlannedRun]:
        return [run for run in self.runs if not self._ended(run)]

    def _ended(self, run: PlannedRun) -> bool:
        at = self.folder / run.folder
        if not is_run(at):
            return False
        if not read_record(at).running:
            return True
        rows = [] if self.stops is None else Result.read(at).rows
        return bool(rows) and rows[-1]["round"] >= self.until(run)


def run_study(
    folder: Path,
    jobs: int,
    checkpoint_every: float,
    note: Callable[[str], object] = lambda text: None,
    runs: Sequence[PlannedRun] | None = None,
    stops: Mapping[str, int] | None = None,
) -> None:
    """Run what has not ended in the folder of a study, ``jobs`` runs at a time.

    ``note`` is called with how many have ended and the time left; ``runs`` selects some, and
    ``stops`` says after which round they stop for now. Ctrl-C lets all runs write a checkpoint.
    """
    study = StudyRuns(folder, read_plan(folder).runs if runs is None else runs, stops)
    waiting, total = study.waiting(), len(study.runs)
    scheduler = RunScheduler(study, jobs, 1, NICE, checkpoint_every)
    begun: set[str] = set()
    ends = {run.folder: study.until(run) for run in waiting}
    before = shown = total - len(waiting)
    if shown:
        note(f"{shown} of {total} runs have ended before")
    start = printed = time.monotonic()

    def look() -> None:
        nonlocal shown, printed
        begun.update(scheduler.running)
        ended = before + len(begun - set(scheduler.running))
        now = time.monotonic()
        if ended > shown or (now > printed + PAUSE and scheduler.running):
            shown, printed = ended, now
            parts = sum(one.round / ends[at] for at, one in scheduler.running.items())
            left = time_left(now - start, ended - before + parts, total - before)
            note(f"{ended} of {total} runs have ended{left}")

    scheduler.work(waiting, look)
    if scheduler.failed:
        at, why = next(iter(scheduler.failed.items()))
        others = f" {len(scheduler.failed)} runs failed." if len(scheduler.failed) > 1 else ""
        raise RunError(f"{folder / at}: {why}.{others}")


def time_left(seconds: float, done: float, total: int) -> str:
    """The estimated time that the rest takes; ``done`` of ``total`` runs took ``seconds``.

    >>> time_left(60, 1.5, 4), time_left(60, 0, 4), time_left(60, 4, 4)
    (', about 1m40s left', '', '')
    """
    return f", about {duration(seconds * (total - done) / done)} left" if 0 < done < total else ""
