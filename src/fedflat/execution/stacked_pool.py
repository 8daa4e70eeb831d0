"""A client pool that trains many clients at once, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedflat.client.stacked_gradients import StackedGradients, footprint
from fedflat.client.stacked_training import run_stack, signature
from fedflat.client.training import ClientJob, Request, run_client
from fedflat.core.failures import ClientFailure
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation
from fedflat.execution.client_pool import ClientPool, PoolOutcome

ROOM = 32 * 2**20
"""Bytes that the clients of one stack may take; further clients go into another stack."""


def stack_capacity(job: ClientJob) -> int:
    """The most clients of one stack."""
    return max(1, ROOM // footprint(job.learner, job.local.batch_size))


class StackedPool(ClientPool):
    """Groups requests that can share a stack.

    A group runs as soon as it is full, after the groups that were begun before it; the others run
    when no more requests come.
    """

    def __init__(self, job: ClientJob, fed: Federation) -> None:
        self.job, self.fed, self.batched = job, fed, StackedGradients(job.learner)
        self._capacity = stack_capacity(job)
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
        """Train a group; if it fails, all of its clients fail."""
        requests, data = zip(*alike, strict=True)
        try:
            if len(alike) == 1:
                return [run_client(self.job, *alike[0])]
            return [run_stack(self.job, self.batched, requests, data)]
        except Exception as error:
            return [ClientFailure.by(error, request.client, request.id) for request in requests]
