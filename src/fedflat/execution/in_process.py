"""One client after the other, in this process."""

from __future__ import annotations

from collections import deque
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
        """Open a pool that works on one request at a time."""
        keep_memory()
        small = job.learner.flat.layout.dim < SMALL
        with threads(self.threads or (1 if small else torch.get_num_threads())):
            yield _InProcessPool(job, fed)


class _InProcessPool(ClientPool):
    def __init__(self, job: ClientJob, fed: Federation) -> None:
        self.job, self.fed = job, fed
        self.queue: deque[Request] = deque()

    def begin(self) -> None:
        self.queue.clear()

    def accepts(self, ahead: int) -> bool:
        """One at a time: a request that waits would only take memory."""
        return ahead == 0

    def submit(self, request: Request) -> None:
        self.queue.append(request)

    def collect(self) -> Sequence[PoolOutcome]:
        if not self.queue:
            return []
        return [run_or_fail(self.job, self.queue.popleft(), self.fed.data)]
