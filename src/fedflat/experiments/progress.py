"""The progress of a run: rounds done, scores, time left; and the time left of a study."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from statistics import fmean

from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.state import RunState

PRETRAINING = "pre-training"
RECENT, APART = 300.0, 1.0
"""The time left is estimated from the last `RECENT` seconds, with marks at least `APART` seconds
apart. Other work on the machine may end, so rounds that are long past do not count."""


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
    """Without evaluations, over the rounds of the last minutes."""
    seconds_per_evaluation: float = 0.0
    """Since this process took the run up."""
    evaluations: tuple[int, int] = (0, 0)
    """How many evaluations follow, and how many the run has in all."""
    described: tuple[int, int] | None = None
    """Before round 0: how many clients sent their description, of how many."""
    phase: str = ""
    """What is trained, if it is not the run itself: `PRETRAINING`."""
    study_left: float | None = None
    """Seconds until the whole study is done, if there are runs after this one."""

    @property
    def left(self) -> float:
        """Seconds until the last round is done and evaluated."""
        training = self.seconds_per_round * (self.rounds - self.round)
        return training + self.seconds_per_evaluation * self.evaluations[0]

    @property
    def whole(self) -> float:
        """Seconds of the whole run, from its first round to its last."""
        training = self.seconds_per_round * self.rounds
        return training + self.seconds_per_evaluation * self.evaluations[1]


OnProgress = Callable[[Progress], None]


class Stopwatch:
    """Speed since this process took the run up, and time left."""

    def __init__(self, run: RunState, evaluated: Collection[int] = ()) -> None:
        self.ledger, self.evaluated, self.done = run.ledger, evaluated, 0
        self.before = sum(t < run.round for t in evaluated)
        self.marks = deque([(run.round, _unevaluated(run))])
        """Rounds and the seconds that they took without evaluations, in the last minutes."""

    def progress(self, run: RunState, rounds: int, loss: float, rows: list[Row]) -> Progress:
        """The progress after the last round."""
        now, before = run.ledger, self.ledger
        speed = (now.samples - before.samples) / max(now.training - before.training, 1e-9)
        seconds = _unevaluated(run)
        while len(self.marks) > 1 and self.marks[1][1] <= seconds - RECENT:
            self.marks.popleft()
        made, at = self.marks[0]
        per_round = (seconds - at) / (run.round - made)
        if seconds >= self.marks[-1][1] + APART:
            self.marks.append((run.round, seconds))
        self.done += run.round - 1 in self.evaluated
        each = (now.evaluation - before.evaluation) / max(self.done, 1)
        total = len(self.evaluated)
        evaluations = (total - self.before - self.done, total)
        last = next((row for row in reversed(rows) if "model" in row), None)
        return Progress(run.round, rounds, loss, last, speed, per_round, each, evaluations)


def _unevaluated(run: RunState) -> float:
    """The seconds of a run without its evaluations."""
    return run.ledger.seconds - run.ledger.evaluation


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
            self.seconds_of[method] = progress.whole / progress.rounds
            usual = fmean(self.seconds_of.values())
            after = sum(rounds * self.seconds_of.get(name, usual) for name, rounds in later)
            return on_progress(replace(progress, study_left=progress.left + after))

        return with_study_left
