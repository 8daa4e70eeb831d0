"""Run the runs of a study on several cores, each in its own process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedflat.errors import RunError
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.record import read_record
from fedflat.experiments.run_folder.study_file import PlannedRun, is_run, read_plan
from fedflat.papers.reproduce.scheduler import RunScheduler

NICE = 0


@dataclass(frozen=True)
class StudyRuns:
    """The runs of a study folder."""

    folder: Path
    runs: Sequence[PlannedRun]
    stops: Mapping[str, int] | None = None
    """The round after which a run stops for now, by folder; None: its last."""

    def until(self, job: PlannedRun) -> int:
        """The round after which a run stops."""
        return job.experiment.rounds if self.stops is None else self.stops[job.folder]

    def waiting(self) -> list[PlannedRun]:
        """The runs that have not ended."""
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

    ``note`` is called with how many have ended; ``runs`` selects some, and ``stops`` says after
    which round they stop for now. Ctrl-C lets all runs write a checkpoint.
    """
    study = StudyRuns(folder, read_plan(folder).runs if runs is None else runs, stops)
    waiting, total = study.waiting(), len(study.runs)
    scheduler = RunScheduler(study, jobs, 1, NICE, checkpoint_every)
    begun: set[str] = set()
    shown = total - len(waiting)
    if shown:
        note(f"{shown} of {total} runs have ended before")

    def look() -> None:
        nonlocal shown
        begun.update(scheduler.running)
        ended = total - len(waiting) + len(begun - set(scheduler.running))
        if ended > shown:
            shown = ended
            note(f"{ended} of {total} runs have ended")

    scheduler.work(waiting, look)
    if scheduler.failed:
        at, why = next(iter(scheduler.failed.items()))
        others = f" {len(scheduler.failed)} runs failed." if len(scheduler.failed) > 1 else ""
        raise RunError(f"{folder / at}: {why}.{others}")
