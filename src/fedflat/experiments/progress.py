"""The progress of a run: rounds done, scores, time left; and the time left of a study."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from statistics import fmean

from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.state import RunState

PRETRAINING = "pre-training"
RECENT, APART = 300.0, 1.0
"""The time left is estimated from the last `RECENT` seconds, with marks at least `APART` seconds apart.
Other work on the machine may end, so rounds that are long past do not count."""


@dataclass(frozen=True)
class Progress:
    """The progress after a round or, before round 0, after a client sent its description."""

    round: int
    rounds: int
    loss: float = nan
    """The mean training loss of the round."""
    row: Row | None = None
    """The last evaluation."""
    speed: float = 0.0
    """Examples trained on in a second of exchanges, since this process took the run up."""
    seconds_per_round: float = 0.0
    """Over the rounds of the last minutes."""
    described: tuple[int, int] | None = None
    """Before round 0: how many clients sent their description, of how many."""
    phase: str = ""
    """What is trained, if it is not the run itself: `PRETRAINING`."""
    study_left: float | None = None
    """Seconds until the whole study is done, if there are runs after this one."""

    @property
    def left(self) -> float:
        """Seconds until the last round is done."""
        return self.seconds_per_round * (self.rounds - self.round)


OnProgress = Callable[[Progress], None]


class Stopwatch:
    """Speed since this process took the run up, and time left."""

    def __init__(self, run: RunState) -> None:
        self.ledger = run.ledger
        self.marks = deque([(run.round, run.ledger.seconds)])
        """Rounds and when they had been made, in the last minutes."""

    def progress(self, run: RunState, rounds: int, loss: float, rows: list[Row]) -> Progress:
        """The progress after the last round."""
        now, before = run.ledger, self.ledger
        speed = (now.samples - before.samples) / max(now.training - before.training, 1e-9)
        while len(self.marks) > 1 and self.marks[1][1] <= now.seconds - RECENT:
            self.marks.popleft()
        made, at = self.marks[0]
        per_round = (now.seconds - at) / (run.round - made)
        if now.seconds >= self.marks[-1][1] + APART:
            self.marks.append((run.round, now.seconds))
        last = next((row for row in reversed(rows) if "model" in row), None)
        return Progress(run.round, rounds, loss, last, speed, per_round)


@dataclass
class StudyTime:
    """Adds the time left of the study to the progress of its runs.

    A later run takes as many seconds a round as the last run of the same method, or, if there was
    none, as the mean over the methods that have run.
    """

    runs: Sequence[tuple[str, int]]
    """The method of each run, and its rounds; no rounds if the run is done already."""
    seconds_of: dict[str, float] = field(default_factory=dict)
    """Seconds a round, by method."""

    def timed(self, place: int, on_progress: OnProgress) -> OnProgress:
        """The progress callback of the run at ``place``, counted from 1."""
        method, later = self.runs[place - 1][0], [run for run in self.runs[place:] if run[1]]

        def with_study_left(progress: Progress) -> None:
            if not later or not progress.round or progress.phase:
                return on_progress(progress)
            self.seconds_of[method] = progress.seconds_per_round
            usual = fmean(self.seconds_of.values())
            after = sum(rounds * self.seconds_of.get(name, usual) for name, rounds in later)
            return on_progress(replace(progress, study_left=progress.left + after))

        return with_study_left
