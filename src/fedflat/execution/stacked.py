"""Many clients at once in one process: for small networks, where a step costs more in Python than
in arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fedflat.client.stacked_gradients import StackedGradients, footprint, unstackable
from fedflat.client.stacked_training import run_stack, signature
from fedflat.client.training import ClientJob, Request, run_client
from fedflat.core.failures import ClientFailure
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation
from fedflat.errors import MOST_PROCESSES, SettingError, number
from fedflat.execution.client_pool import ClientPool, PoolOutcome, Source, threads
from fedflat.kernels.allocator import keep_memory
from fedflat.registry.specs import TextSpec, register

ROOM = 32 * 2**20
"""Bytes that the clients of one stack may take; further clients go into another stack."""


@register("executor", "stacked")
@dataclass(frozen=True, repr=False)
class Stacked(TextSpec):
    """Clients with equal numbers of examples as one batched computation, for small models.

    The numbers are those of single clients up to the rounding of another order of summation.
    Clients of unequal sizes are in different stacks, and one that is like no other trains alone:
    where no two are alike, nothing is gained. ``threads`` work inside each operation, one if None.
    """

    threads: int | None = None

    def __post_init__(self) -> None:
        if self.threads is not None:
            number("stacked", "threads", self.threads, low=1, high=MOST_PROCESSES, whole=True)

    def refusal(self, job: ClientJob, fed: Federation | None = None) -> str | None:
        """Why this job cannot be done in rows, if so; with the data, its loss is tried too."""
        for piece in job.pieces:
            if not piece.stackable:
                return f"{piece} works on one client at a time"
        return unstackable(
            job.learner, None if fed is None else fed.data(0) if fed.here else fed.test
        )

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[ClientPool]:
        """Open a pool that trains many clients at once."""
        why = self.refusal(job, fed)
        if why is not None:
            raise SettingError(
                f"clients cannot train in stacks: {why}. Train them one by one, in this process "
                "(executor='in-process') or in workers (executor='workers')."
            )
        keep_memory()
        with threads(self.threads or 1):
            yield _StackedPool(
                job,
                fed,
                StackedGradients(job.learner),
                max(1, ROOM // footprint(job.learner, job.local.batch_size)),
            )


class _StackedPool(ClientPool):
    """Groups requests that can share a stack.

    A group runs as soon as it is full, after the groups that were begun before it; the others run
    when no more requests come.
    """

    def __init__(
        self, job: ClientJob, fed: Federation, batched: StackedGradients, capacity: int
    ) -> None:
        self.job, self.fed, self.batched = job, fed, batched
        self._capacity = capacity
        self.begin()

    @property
    def capacity(self) -> int:
        return self._capacity

    def begin(self) -> None:
        self.groups: dict[Any, list[tuple[Request, ClientData]]] = {}
        """Requests that wait, in the order of the first of each group."""
        self.full: Any = None
        """The signature of the group that is full."""
        self.failures: list[PoolOutcome] = []

    def accepts(self, ahead: int) -> bool:
        return self.full is None

    def submit(self, request: Request) -> None:
        try:
            data = self.fed.data(request.client)
        except Exception as error:
            self.failures.append(ClientFailure.by(error, request.client, request.id))
            return
        mine = signature(self.job, request, data)
        group = self.groups.setdefault(mine, [])
        group.append((request, data))
        if len(group) == self.capacity:
            self.full = mine

    def collect(self) -> Sequence[PoolOutcome]:
        """Run the first group; what is full is run before more requests are taken."""
        if self.failures or not self.groups:
            failures, self.failures = self.failures, []
            return failures
        first = next(iter(self.groups))
        if first == self.full:
            self.full = None
        return self._run_group(self.groups.pop(first))

    def _run_group(self, alike: list[tuple[Request, ClientData]]) -> Sequence[PoolOutcome]:
        """Those who train together fail together."""
        requests, data = zip(*alike, strict=True)
        try:
            if len(alike) == 1:
                return [run_client(self.job, *alike[0])]
            return [run_stack(self.job, self.batched, requests, data)]
        except Exception as error:
            return [ClientFailure.by(error, request.client, request.id) for request in requests]
