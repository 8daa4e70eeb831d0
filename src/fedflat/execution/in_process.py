"""One visit after the other, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from fedflat.client.training import ClientJob, Request
from fedflat.data.federation import Federation
from fedflat.execution.client_pool import ClientPool, PoolOutcome, Source, run_or_fail, threads
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
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[ClientPool]:
        """A crew of one."""
        keep_memory()
        small = job.learner.flat.layout.dim < SMALL
        with threads(self.threads or (1 if small else torch.get_num_threads())):
            yield _InProcessPool(job, fed)


@dataclass(frozen=True)
class _InProcessPool:
    job: ClientJob
    fed: Federation

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        for request in requests:
            yield run_or_fail(self.job, request, self.fed.data)
