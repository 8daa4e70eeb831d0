"""One client after the other, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from fedflat.client.training import ClientJob, Outcome, Request, run_client
from fedflat.core.failures import ClientFailure
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation
from fedflat.execution.client_pool import Pool, PoolOutcome, Source, threads
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
            yield InProcessPool(job, fed)


@dataclass(frozen=True)
class InProcessPool:
    """A pool in this process, with one request at a time: a second one would only take memory."""

    job: ClientJob
    fed: Federation

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        """Yield the outcomes of all requests; each request is answered when it is asked for."""
        for request in requests:
            yield run_or_fail(self.job, request, self.fed.data)


def run_or_fail(
    job: ClientJob, request: Request, data: Callable[[int], ClientData]
) -> Outcome | ClientFailure:
    """Do the work of one request; an error is returned as a `ClientFailure`.

    Args:
        job: What all requests of the run have in common.
        request: What the client is to do.
        data: Opens the data of a client.
    """
    try:
        return run_client(job, request, data(request.client))
    except Exception as error:
        return ClientFailure.by(error, request.client, request.id)
