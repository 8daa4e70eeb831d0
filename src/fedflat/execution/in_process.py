"""One client after the other, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from fedflat.client.training import ClientJob, Request
from fedflat.data.federation import Federation
from fedflat.execution.client_pool import (
    Pool,
    PoolOutcome,
    SequentialPool,
    Source,
    run_or_fail,
    threads,
)
from fedflat.kernels.allocator import keep_memory
from fedflat.registry.specs import TextSpec, register

SMALL = 50_000
"""Parameters below which one thread is faster than two."""


@register("executor", "in_process")
@dataclass(frozen=True, repr=False)
class InProcess(TextSpec):
    """Clients one after another, in the main process.

    ``threads`` work inside each operation; None leaves the number to torch, but takes one for a
    small model, whose operations are too short to share.
    """

    threads: int | None = None

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[Pool]:
        """Open a pool that works on one request at a time."""
        keep_memory()
        small = job.learner.flat.layout.dim < SMALL
        with threads(self.threads or (1 if small else torch.get_num_threads())):
            yield _InProcessPool(job, fed)


class _InProcessPool(SequentialPool):
    def __init__(self, job: ClientJob, fed: Federation) -> None:
        self.job, self.fed = job, fed

    def answer(self, request: Request) -> PoolOutcome:
        return run_or_fail(self.job, request, self.fed.data)
