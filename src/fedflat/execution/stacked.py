"""Many clients at once: for small networks, where a step costs more in Python than in
arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fedflat.client.learner import Learner
from fedflat.client.request_columns import RequestColumns, columns_of
from fedflat.client.stacked_gradients import unstackable
from fedflat.client.training import ClientJob, Request
from fedflat.data.examples import Batch
from fedflat.data.federation import Federation
from fedflat.errors import MOST_PROCESSES, SettingError, number
from fedflat.execution.client_pool import ClientPool, PoolOutcome, Source, threads
from fedflat.execution.devices import check_workers, read_devices, worker_devices
from fedflat.execution.stacked_pool import StackedPool, stack_capacity
from fedflat.execution.workers import WorkerPool, open_workers
from fedflat.kernels.allocator import keep_memory
from fedflat.registry.specs import TextSpec, register


@register("executor", "stacked")
@dataclass(frozen=True, repr=False)
class Stacked(TextSpec):
    """Clients with equal numbers of examples as one batched computation, for small models.

    The numbers are those of single clients up to the rounding of another order of summation.
    Clients of unequal sizes are in different stacks, and one that is like no other trains alone:
    where no two are alike, nothing is gained.

    threads
        Number of threads of each operation, one if None.
    workers
        Number of processes. With more than one, the cohort is cut into as many consecutive parts
        of nearly equal size (more parts if one would need too much memory), and each part is
        stacked in a worker process. The parts depend only on the cohort and on this number.
    devices
        The devices that the processes are divided among in turn, such as "0,1" for two GPUs.
        None: the device of the run.
    clients
        Most clients in a stack. None: as many as fit into 32 MB, or into an eighth of the free
        memory of a GPU, divided by the processes that share it.
    """

    threads: int | None = None
    workers: int = 1
    devices: str | None = None
    clients: int | None = None

    def __post_init__(self) -> None:
        if self.threads is not None:
            number("stacked", "threads", self.threads, low=1, high=MOST_PROCESSES, whole=True)
        number("stacked", "workers", self.workers, low=1, high=MOST_PROCESSES, whole=True)
        if self.clients is not None:
            number("stacked", "clients", self.clients, low=1, whole=True)
        if self.devices is not None:
            check_workers("stacked", self.workers, read_devices("stacked", self.devices))

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
        if self.workers > 1 or self.devices is not None:
            places = worker_devices(job.learner.device, self.devices)
            sharing = -(-self.workers // len(places)) * max(map(places.count, places))
            most = self.clients or stack_capacity(job, sharing)
            with open_workers(job, source, self.workers, self.threads or 1, self.devices) as pool:
                yield PartPool(pool, most)
            return
        keep_memory()
        with threads(self.threads or 1):
            yield StackedPool(job, fed, self.clients or stack_capacity(job))


def part_size(cohort: int, workers: int, most: int) -> int:
    """The number of clients in a part, if ``most`` clients fit into one.

    >>> part_size(100, 2, 1000), part_size(101, 2, 1000), part_size(100, 2, 20), part_size(1, 2, 9)
    (50, 51, 17, 1)
    """
    turns = -(-cohort // (workers * most))
    return max(1, -(-cohort // (workers * turns))) if turns else 1


def parts_of(requests: Sequence[Request], size: int) -> Iterator[RequestColumns]:
    """Cut requests into parts of at most ``size`` with the same broadcast."""
    while requests:
        part = columns_of(requests[:size])
        yield part
        requests = requests[len(part) :]


class PartPool(ClientPool):
    """Cuts a cohort into parts, each of which a worker process trains as stacks.

    Requests of a part have the same broadcast. Which worker trains a part does not matter.
    """

    def __init__(self, workers: WorkerPool, most: int) -> None:
        self.workers, self.most = workers, most

    @property
    def capacity(self) -> int:
        """The number of worker processes."""
        return self.workers.capacity

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        """Yield the outcomes of all requests, in their order."""
        size = part_size(len(requests), self.workers.capacity, self.most)
        return self.workers.run_parts(parts_of(requests, size))

    def begin(self) -> None:
        self.workers.begin()

    def submit(self, request: Request) -> None:
        """Let a worker train one client."""
        self.workers.submit(request)

    def collect(self) -> Sequence[PoolOutcome]:
        return self.workers.collect()

    def forward(
        self, learner: Learner, batches: Iterable[Batch], norms: Sequence[str] = ()
    ) -> Iterator[tuple[Batch, Any]]:
        """Yield each test batch with its output, computed by the workers."""
        return self.workers.forward(learner, batches, norms)

    def recover(self) -> None:
        self.workers.recover()
