"""What was seen of one run: in this process and in its workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from fedflat.profiling.rooms import seconds_in_rooms
from fedflat.profiling.sampler import Samples


@dataclass(frozen=True)
class Profile:
    """Samples of a run, as far as it got."""

    here: Samples
    """This process."""
    workers: tuple[Samples, ...] = ()
    """Those worker processes that could still tell."""
    rounds: int = 0
    """Rounds that were done while looking on."""
    folder: Path | None = field(default=None, compare=False)
    """The run's folder, if it has one: the files of the profile are there."""

    @cached_property
    def rooms(self) -> dict[str, float]:
        """Seconds of this process in each room."""
        return seconds_in_rooms(self.here)

    @cached_property
    def worker_rooms(self) -> dict[str, float]:
        """Seconds of all workers together in each room."""
        return seconds_in_rooms(*self.workers)

    @property
    def processes(self) -> dict[str, Samples]:
        """Every process by name."""
        return {"this process": self.here} | {f"worker {n}": one for n, one in enumerate(self.workers, 1)}
