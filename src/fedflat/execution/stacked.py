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
from fedflat.execution.client_pool import PoolOutcome, Source, threads
from fedflat.kernels.allocator import keep_memory
from fedflat.registry.specs import TextSpec, register

ROOM = 32 * 2**20
"""Bytes that clients visited together may take; of more clients, some are visited after the
others."""


@register("executor", "stacked")
@dataclass(frozen=True, repr=False)
class Stacked(TextSpec):
    """Clients with equal numbers of examples as one batched computation, for small models.

    The numbers are those of single visits up to the rounding of another order of summation. Clients
    of unequal sizes are visited apart, and one that is like no other is visited alone: where no two
    are alike, nothing is gained. ``threads`` work inside each operation, one if None.
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
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[_StackedPool]:
        """A crew that visits many at once."""
        why = self.refusal(job, fed)
        if why is not None:
            raise SettingError(
                f"clients cannot be visited in stacks: {why}. Visit them one by one, in this process or in workers."
            )
        keep_memory()
        with threads(self.threads or 1):
            yield _StackedPool(
                job,
                fed,
                StackedGradients(job.learner),
                max(1, ROOM // footprint(job.learner, job.local.batch_size)),
            )


@dataclass(frozen=True)
class _StackedPool:
    job: ClientJob
    fed: Federation
    batched: StackedGradients
    most: int
    """Clients visited together."""

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        """Replies and new memories of those who are alike: as soon as they are as many as go
        together, after those begun before them; the rest at the end."""
        waiting: dict[
            Any, list[tuple[Request, ClientData]]
        ] = {}  # in the order of their first letters
        for request in requests:
            try:
                data = self.fed.data(request.client)
            except Exception as error:
                yield ClientFailure.by(error, request.client, request.id)
                continue
            mine = signature(self.job, request, len(data))
            waiting.setdefault(mine, []).append((request, data))
            if len(waiting[mine]) == self.most:
                for place in list(waiting)[: list(waiting).index(mine) + 1]:
                    yield from self._visit(waiting.pop(place))
        for alike in waiting.values():
            yield from self._visit(alike)

    def _visit(self, alike: list[tuple[Request, ClientData]]) -> Sequence[PoolOutcome]:
        """Those who are visited together are missing together."""
        requests, data = zip(*alike, strict=True)
        try:
            if len(alike) == 1:
                return [run_client(self.job, *alike[0])]
            return [run_stack(self.job, self.batched, requests, data)]
        except Exception as error:
            return [ClientFailure.by(error, request.client, request.id) for request in requests]
