"""The executor for those who do not want to choose: the first visits are timed, and the rest goes where it is fastest.

No visit is wasted: the first two are made here, with one thread, and are part of the run. For networks of some size
the choice is between this process and workers, with the same bits either way.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from fedflat.client.visit import ClientJob, Letter
from fedflat.data.federation import Federation
from fedflat.runs.executors import SMALL, Crew, Executor, InProcess, Source, Workers, dumps
from fedflat.runs.stacked import Stacked

WORTH = 6.0
"""Seconds of visits below which starting processes or tracing a network does not pay."""
LONG = 0.05
"""Seconds of a visit below which sending it to another process costs more than it saves."""


Chosen = Callable[[Executor, str], None]
"""Told the executor, and why in a sentence."""


@dataclass(frozen=True)
class Auto:
    """Chooses for a run of ``visits`` visits, ``cohort`` at a time; ``chosen`` is told."""

    visits: int
    cohort: int
    chosen: Chosen = lambda executor, why: None

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[Crew]:
        """A crew that makes up its mind in the first exchange."""
        fixed = self.without_looking(job)
        with ExitStack() as opened:
            if fixed is not None:
                self.chosen(*fixed)
                yield opened.enter_context(fixed[0].open(job, fed, source))
            else:
                yield _Undecided(self, job, fed, source, opened)

    def without_looking(self, job: ClientJob) -> tuple[Executor, str] | None:
        """The choice where no time could change it."""
        if job.task.device.partition(":")[0] != "cpu" and self.stackable(job) is not None:
            return InProcess(), "one client at a time on the device"
        if min(self.cohort, self.visits) < 2:
            return InProcess(), "one client at a time, since no two are asked at once"
        return None

    def after(self, job: ClientJob, source: Source, seconds: float) -> tuple[Executor, str]:
        """The choice when a visit took so long with one thread."""
        expected, each = seconds * self.visits, f"a visit takes {_span(seconds)}"
        if expected < WORTH:
            return InProcess(1), f"one client at a time: {each}, the whole run {_span(expected)}"
        if job.task.flat.layout.dim < SMALL and self.stackable(job) is None:
            return Stacked(), f"all clients of a round in one stack: {each}, most of it not arithmetic"
        if seconds < LONG:
            return InProcess(1), f"one client at a time: {each}, too short to be sent elsewhere"
        workers = min(cores(), self.cohort)
        if workers < 2 or not _sendable(job, source):
            return InProcess(), f"one client at a time: {each}, and there is nobody to share with"
        return Workers(workers), f"{workers} clients at a time, each in a process of its own: {each}"

    def stackable(self, job: ClientJob) -> str | None:
        """Why the job cannot be stacked; None if it can."""
        return "the cohort is small" if self.cohort < 8 else Stacked().refusal(job)


@dataclass
class _Undecided:
    auto: Auto
    job: ClientJob
    fed: Federation
    source: Source
    opened: ExitStack
    crew: Crew | None = None

    def visit(self, letters: Sequence[Letter]) -> Iterator[Any]:
        if self.crew is not None:
            return self.crew.visit(letters)
        return self._first(letters)

    def _first(self, letters: Sequence[Letter]) -> Iterator[Any]:
        alone = InProcess(1).open(self.job, self.fed, self.source)
        with alone as crew:
            for letter in itertools.islice(letters, 2):  # the first warms up
                begun = time.perf_counter()
                yield from crew.visit([letter])
                seconds = time.perf_counter() - begun
        executor, why = self.auto.after(self.job, self.source, seconds)
        self.auto.chosen(executor, why)
        self.crew = self.opened.enter_context(executor.open(self.job, self.fed, self.source))
        yield from self.crew.visit(letters[2:])


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _sendable(job: ClientJob, source: Source) -> bool:
    try:
        dumps((job, source))
    except Exception:
        return False
    return True


def _span(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds:.1f} s"

