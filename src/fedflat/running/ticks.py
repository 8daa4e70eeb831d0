"""What a run tells as it goes on: how far it is, how well it does, how long it will take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import nan

from fedflat.folder.diary import Row
from fedflat.running.state import Run


@dataclass(frozen=True)
class Tick:
    """What there is to tell when a round is done, or, before round 0, when a client has said what it is like."""

    round: int
    rounds: int
    loss: float = nan
    """The mean training loss of the round."""
    row: Row | None = None
    """The last evaluation."""
    speed: float = 0.0
    """Examples trained on in a second of exchanges, since this process took the run up."""
    left: float = 0.0
    """Seconds to go, judging by the rounds since then."""
    described: tuple[int, int] | None = None
    """Before round 0: how many clients have said what they are like, of how many."""


Tell = Callable[[Tick], None]


class Stopwatch:
    """Speed and time left, from where this process took the run up."""

    def __init__(self, run: Run) -> None:
        self.round, self.ledger = run.round, run.ledger

    def tick(self, run: Run, rounds: int, loss: float, rows: list[Row]) -> Tick:
        """What to tell now."""
        now, before = run.ledger, self.ledger
        speed = (now.samples - before.samples) / max(now.training - before.training, 1e-9)
        left = (now.seconds - before.seconds) / (run.round - self.round) * (rounds - run.round)
        return Tick(run.round, rounds, loss, rows[-1] if rows else None, speed, left)
