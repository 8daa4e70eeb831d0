"""The time left of a study: that of its current run, and an estimate for the runs after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from fedflat.experiments.progress import OnProgress, Progress


@dataclass
class StudyTime:
    """Adds the time left of the study to the ticks of its runs.

    A later run takes as many seconds a round as the last run of the same method, or, if there was
    none, as the mean over the methods that have run.
    """

    runs: Sequence[tuple[str, int]]
    """The method of each run, and its rounds; no rounds if the run is done already."""
    paces: dict[str, float] = field(default_factory=dict)
    """Seconds a round, by method."""

    def timed(self, place: int, on_progress: OnProgress) -> OnProgress:
        """The progress callback of the run at ``place``, counted from 1."""
        method, later = self.runs[place - 1][0], [run for run in self.runs[place:] if run[1]]

        def with_study_left(progress: Progress) -> None:
            if not later or not progress.round or progress.phase:
                return on_progress(progress)
            self.paces[method] = progress.pace
            usual = fmean(self.paces.values())
            after = sum(rounds * self.paces.get(name, usual) for name, rounds in later)
            return on_progress(replace(progress, study_left=progress.left + after))

        return with_study_left
