"""One visit after the other, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from fedflat.client.visit import ClientJob, Letter
from fedflat.data.federation import Federation
from fedflat.executors.allocator import keep_memory
from fedflat.executors.crew import Crew, Source, Visited, attempt, threads

SMALL = 50_000
"""Parameters below which one thread is faster than two."""


@dataclass(frozen=True)
class InProcess:
    """One visit after the other, here.

    ``threads`` work inside each operation; None leaves the number to torch, but takes one for a small model, whose
    operations are too short to share.
    """

    threads: int | None = None

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[Crew]:
        """A crew of one."""
        keep_memory()
        small = job.learner.flat.layout.dim < SMALL
        with threads(self.threads or (1 if small else torch.get_num_threads())):
            yield _Alone(job, fed)


@dataclass(frozen=True)
class _Alone:
    job: ClientJob
    fed: Federation

    def visit(self, letters: Sequence[Letter]) -> Iterator[Visited]:
        for letter in letters:
            yield attempt(self.job, letter, self.fed.data)
