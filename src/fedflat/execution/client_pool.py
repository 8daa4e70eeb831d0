"""Executors and client pools: an executor opens a pool for a run, and the pool answers requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, runtime_checkable

import torch

from fedflat.client.learner import Learner
from fedflat.client.training import ClientJob, Request
from fedflat.data.examples import Batch
from fedflat.data.federation import Federation
from fedflat.errors import FedflatError
from fedflat.execution.scheduler import PoolOutcome, Then, WorkLeft, run_chains, run_requests
from fedflat.execution.state_ids import StateIds

__all__ = [
    "ChainPool",
    "ClientPool",
    "ClientsUnreachable",
    "Executor",
    "ForwardPool",
    "Pool",
    "PoolOutcome",
    "RemoteClientPool",
    "StatefulPool",
    "Then",
    "WorkLeft",
]

Source = Callable[..., Federation]
"""A picklable function that opens the data; its argument ``device`` names another device."""


class ClientsUnreachable(FedflatError):
    """The pool has nothing left that could run clients. The run is stopped after its last round."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason} The run can be resumed.")


class Pool(Protocol):
    """The clients of one run: anything whose `run` answers requests."""

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        """Yield the outcomes of all requests, in their order, a `ReplyBatch` at its first one.

        A request is taken from the sequence as late as possible: it has the state that the client
        has then. An error in a client is an outcome, a `ClientFailure`, and no error of the pool.
        """
        ...


class ClientPool(ABC):
    """A pool that works on several requests at a time, behind whatever carries requests to clients.

    A pool of your own defines `submit` and `collect`; the order and the number of requests are the
    scheduler's (`fedflat.execution.scheduler`). An error in a client is an outcome, a
    `ClientFailure`, and no error of the pool.
    """

    @property
    def capacity(self) -> int:
        """How many requests the pool works on at the same time."""
        return 1

    @abstractmethod
    def submit(self, request: Request) -> None:
        """Take a request; do not wait for its outcome."""

    @abstractmethod
    def collect(self) -> Sequence[PoolOutcome]:
        """Wait until a request is done; return the outcomes that have come, in any order.

        Each outcome names the id of its request. Return nothing only if no request is left to wait
        for: requests without an outcome fail as too late.
        """

    def begin(self) -> None:
        """Begin a new exchange: never return outcomes of requests that were submitted before."""

    def accepts(self, ahead: int) -> bool:
        """Whether to submit one more request while ``ahead`` are submitted and not yet yielded."""
        return ahead < 2 * self.capacity

    def recover(self) -> None:
        """Replace what was lost, where requests need it: the run goes on after a failure."""

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        """Yield the outcomes of all requests, in their order, a `ReplyBatch` at its first one."""
        return run_requests(self, requests)


@runtime_checkable
class ChainPool(Protocol):
    """A pool in which each of several chains of requests goes on without waiting for the others."""

    def run_chains(
        self, requests: Sequence[Request], then: Then, work_left: WorkLeft
    ) -> Iterator[PoolOutcome]:
        """Yield the last outcome of each chain: see `fedflat.execution.scheduler.run_chains`."""
        ...


@runtime_checkable
class ForwardPool(Protocol):
    """A pool that can compute the outputs of a model on test batches."""

    def forward(
        self, learner: Learner, batches: Iterable[Batch], norms: Sequence[str] = ()
    ) -> Iterator[tuple[Batch, Any]]:
        """Yield each batch with its output, in order: see `fedflat.client.evaluate.Forward`."""
        ...


@runtime_checkable
class StatefulPool(Protocol):
    """A pool whose clients keep their states: outcomes bring none back."""

    def use_states(self, ids: StateIds) -> None:
        """Name the state of each request by these ids from now on, and report states to them.

        A request gets ``state_id=ids.current(client)`` and ``keep=ids.keep(client)``. When a client
        has made a state in a request, call ``ids.made(request.id)``.
        """
        ...


class Executor(Protocol):
    """Anything whose `open` gives a client pool."""

    def open(self, job: ClientJob, fed: Federation, source: Source) -> AbstractContextManager[Pool]:
        """Open a pool for one run, as a context manager.

        Args:
            job: What all requests of the run have in common.
            fed: The data, opened in this process.
            source: Opens the data in another process.
        """
        ...


ExecutorLike = str | Executor
"""An executor, or the name of one of fedflat's."""


class RemoteClientPool(ClientPool):
    """A pool of other processes. The caller aggregates with one thread, as they use the cores."""

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        """Yield the outcomes of all requests."""
        with threads(1):
            yield from super().run(requests)

    def run_chains(
        self, requests: Sequence[Request], then: Then, work_left: WorkLeft
    ) -> Iterator[PoolOutcome]:
        """Yield the last outcome of each chain."""
        with threads(1):
            yield from run_chains(self, requests, then, work_left)


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Let torch use ``n`` threads in this block."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
