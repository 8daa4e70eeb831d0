"""Several clients at a time, each in a worker process, with the same bits for equal threads."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

from fedflat.client.evaluate import forward_one
from fedflat.client.learner import Learner
from fedflat.client.request_columns import RequestColumns
from fedflat.client.training import ClientJob, Request
from fedflat.core.failures import CRASHED, ClientFailure
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast
from fedflat.data.examples import Batch
from fedflat.data.federation import Federation
from fedflat.errors import MOST_PROCESSES, SettingError, number
from fedflat.execution.client_pool import (
    ClientPool,
    PoolOutcome,
    RemoteClientPool,
    Source,
    threads,
)
from fedflat.execution.devices import check_workers, least_used, read_devices, worker_devices
from fedflat.execution.interrupt import ALL
from fedflat.execution.main_module import REMEDY, MainModule, hidden, main_module_of
from fedflat.execution.pickling import dumps, opened, packed
from fedflat.execution.profiling.worker_samples import WorkerSamples
from fedflat.execution.shared_answers import SHARED, Answer, SharedAnswers, open_shared
from fedflat.execution.worker import EvalInputs
from fedflat.execution.worker_died import WorkerDied, death_of
from fedflat.execution.worker_start import FAILED, safe_path, start
from fedflat.kernels.allocator import huge_pages, keep_memory
from fedflat.registry.plugins import Named, named_plugins
from fedflat.registry.specs import TextSpec, register


@dataclass(frozen=True)
class EvalBatch:
    """A test batch of which a worker computes the output."""

    model: Model
    inputs: EvalInputs


PIPE = 2**16
"""Bytes of messages that are sent at once: a pipe takes so many, and each wakes the worker."""
Part = RequestColumns | EvalBatch
"""Requests that one worker answers together, or a test batch."""
PartT = TypeVar("PartT", RequestColumns, EvalBatch)


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@register("executor", "workers")
@dataclass(frozen=True, repr=False)
class Workers(TextSpec):
    """Several clients at a time, each in a worker process; by default one process per core.

    A client is not bound to a worker: its state travels with the request and comes back.

    workers
        Number of processes, at least 1.
    threads
        Number of threads of each process, at least 1.
    devices
        The devices that the workers are divided among in turn, such as "0,1" for two GPUs; a
        device that is named twice gets twice as many. None: the device of the run.
    """

    workers: int = field(default_factory=cores)
    threads: int = 1
    devices: str | None = None

    def __post_init__(self) -> None:
        number("workers", "workers", self.workers, low=1, high=MOST_PROCESSES, whole=True)
        number("workers", "threads", self.threads, low=1, high=MOST_PROCESSES, whole=True)
        if self.devices is not None:
            check_workers("workers", self.workers, read_devices("workers", self.devices))

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[ClientPool]:
        """Start the processes; end them in any case."""
        with open_workers(job, source, self.workers, self.threads, self.devices) as pool:
            yield pool


@contextmanager
def open_workers(
    job: ClientJob, source: Source, workers: int, threads: int, devices: str | None = None
) -> Iterator[WorkerPool]:
    """Start worker processes for a job, on these devices in turn; end them in any case."""
    places = worker_devices(job.learner.device, devices)
    order = pickle_job(job, source)
    if isinstance(order, str):
        raise SettingError(
            f"the run cannot be sent to worker processes: {order}. Models, losses and data given "
            "in Python must be defined at the top level of a module that they can import. "
            f"{REMEDY}"
        )
    pool = WorkerPool(order, workers, threads, places)
    try:
        keep_memory()
        pool.fill()
        yield pool
    finally:
        pool.close()


@dataclass(frozen=True)
class PickledJob:
    """A job and the function that opens its data, as bytes."""

    content: bytes
    way: MainModule | None
    """How a worker gets the main module, if it must have it."""
    plugins: tuple[Named, ...]
    """What a worker must load to understand it."""
    device: str = "cpu"
    """The device of the run."""


def pickle_job(job: ClientJob, source: Source) -> PickledJob | str:
    """The job for worker processes; or why it cannot be sent, as the end of a sentence."""
    try:
        pickled = packed((job, source))
    except Exception as error:
        return f"it cannot be pickled ({error})"
    way, why = main_module_of(pickled.mains)
    return why or PickledJob(pickled.content, way, named_plugins(), job.learner.device)


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes started in here block the signals that a terminal or a scheduler sends to all."""
    # else the first process starts it, which lets Ctrl-C through again
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ALL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class WorkerPool(RemoteClientPool):
    """Processes, each of which works on one part; parts beyond these wait here.

    A part is one request, or several that a worker trains as stacks (`submit_part`). A worker that
    dies fails its requests. It is replaced when the run goes on without that client
    and requests wait: a run that fails does not wait for a new process.
    """

    def __init__(
        self, order: PickledJob, n: int, threads: int, devices: Sequence[str] = ("cpu",)
    ) -> None:
        self.order, self.n, self.threads, self.devices = order, n, threads, devices
        self.places: dict[Connection, str] = {}
        """The device of each of them, of those that died, too."""
        self.context = multiprocessing.get_context("spawn")
        self.samples = WorkerSamples(self.context)
        self.workers: dict[Connection, SpawnProcess] = {}
        self.shared: dict[Connection, SharedAnswers | None] = {}
        """The memory for the answers of each of them."""
        self.busy: dict[Connection, tuple[int, Part]] = {}
        """Who works on what, and the number of its exchange."""
        self.exchanges = 0
        self.idle: list[Connection] = []
        self.queue: deque[Part] = deque()
        self.replaces = False
        """Whether workers that died are replaced if requests wait."""
        self.sent: dict[Connection, Broadcast | Model] = {}
        """The last broadcast or model of this exchange that each of them got."""
        self.packed: tuple[Broadcast | Model, bytes] | None = None
        """The last of them as bytes."""

    @property
    def capacity(self) -> int:
        return self.n

    def fill(self) -> None:
        """Start as many processes as are missing, and wait until they are ready."""
        missing, new = self.n - len(self.workers), list[Connection]()
        if not missing:
            return
        with safe_path() as before, _deaf_children(), huge_pages(), hidden():
            for _ in range(missing):
                ours, theirs = self.context.Pipe()
                shared = self.shared[ours] = open_shared()
                process = self.context.Process(
                    target=start,
                    args=(theirs, self.samples.open_connection(), before, shared),
                    daemon=True,
                )
                process.start()
                theirs.close()
                self.places[ours] = least_used(self.devices, map(self.places.get, self.workers))
                self.workers[ours] = process
                new.append(ours)
        for line in new:
            setup = self.order.way, self.order.plugins, self.threads, self.places[line]
            _send(line, dumps(setup), self.order.content)
        for line in new:
            answer = self._answer(line)
            if isinstance(answer, WorkerDied):
                raise answer
            opened(answer.content)
        self.idle += new

    def close(self) -> None:
        """End all of them, in the middle of a request too."""
        self.samples.collect(self.workers.values())
        for line, process in self.workers.items():
            line.close()
            process.kill()
            process.join()
        for shared in filter(None, self.shared.values()):
            shared.close()
        self.shared = {}

    def begin(self) -> None:
        """Answers to requests of earlier exchanges are dropped when they come."""
        self.exchanges, self.sent, self.packed = self.exchanges + 1, {}, None
        self.queue.clear()
        self.idle = [line for line in self.workers if line not in self.busy]
        self.fill()

    def submit(self, request: Request) -> None:
        self.submit_part(RequestColumns.of((request,)))

    def submit_part(self, part: Part) -> None:
        """Take requests that one worker answers together."""
        self.queue.append(part)
        self._start()

    def collect(self) -> Sequence[PoolOutcome]:
        return [
            outcome
            for part, answer in self._collect()
            if not isinstance(part, EvalBatch)
            for outcome in _outcomes(part, answer, self.order.device)
        ]

    def forward(
        self, learner: Learner, batches: Iterable[Batch], norms: Sequence[str] = ()
    ) -> Iterator[tuple[Batch, Any]]:
        """Yield each test batch with the output of the learner's model, in order.

        The outputs have the bits of one process with as many threads. A batch without an output is
        computed here, so that an error of the model is raised in this process.
        """
        model, running = learner.flat.model(), deque[Batch]()

        def parts() -> Iterator[EvalBatch]:
            for batch in batches:
                running.append(batch)
                yield EvalBatch(model, EvalInputs(batch.inputs, (*norms,)))

        with threads(self.threads):
            for _, answer in self._answers(parts()):
                output, batch = _output(answer, self.order.device), running.popleft()
                if isinstance(output, Exception):
                    learner.load(model)
                    output = forward_one(learner, batch.inputs, norms)
                yield batch, output

    def run_parts(self, parts: Iterable[RequestColumns]) -> Iterator[PoolOutcome]:
        """Yield the outcomes of all requests, in the order of the parts."""
        with threads(1):  # the workers use the cores
            for part, answer in self._answers(parts):
                outcomes = _outcomes(part, answer, self.order.device)
                yield from outcomes
                if any(isinstance(one, ClientFailure) for one in outcomes):
                    self.recover()

    def _answers(self, parts: Iterable[PartT]) -> Iterator[tuple[PartT, Answer | WorkerDied]]:
        """Yield each part with its answer, in order; two parts per worker are sent in advance."""
        self.begin()
        coming, waiting = iter(parts), deque[PartT]()
        came: dict[int, Answer | WorkerDied] = {}
        while True:
            for part in islice(coming, 2 * self.capacity - len(waiting)):
                waiting.append(part)
                self.submit_part(part)
            if not waiting:
                return
            first = waiting.popleft()
            while id(first) not in came:
                came |= {id(part): answer for part, answer in self._collect()}
            yield first, came.pop(id(first))

    def _collect(self) -> list[tuple[Part, Answer | WorkerDied]]:
        """Wait for answers of this exchange."""
        came: list[tuple[Part, Answer | WorkerDied]] = []
        while not came and (self.busy or self.queue):
            if not self.busy:
                self.recover()
            for ready in wait(list(self.busy)):
                assert isinstance(ready, Connection)
                (exchange, part), answer = self.busy.pop(ready), self._answer(ready)
                if ready in self.workers:
                    self.idle.append(ready)
                elif exchange != self.exchanges:
                    self.replaces = True
                self._start()  # before its answer is decoded
                if exchange == self.exchanges:
                    came.append((part, answer))
        return came

    def recover(self) -> None:
        self.replaces = True
        self._start()

    def _start(self) -> None:
        """Let idle workers begin with the requests that wait."""
        if self.replaces and len(self.queue) > len(self.idle):
            self.replaces = False
            self.fill()
        while self.idle and self.queue:
            self._hand(self.queue.popleft())

    def _hand(self, part: Part) -> None:
        """Give a part to a worker that is idle."""
        line = self.idle.pop()
        self.busy[line] = self.exchanges, part
        first = part.model if isinstance(part, EvalBatch) else part.broadcast
        if self.sent.get(line) is not first:
            self.sent[line] = first
            if self.packed is None or self.packed[0] is not first:
                self.packed = first, dumps(first)
            messages = [self.packed[1], dumps(_content(part))]
            if sum(map(len, messages)) <= PIPE:  # else they would be copied
                messages = [b"".join(messages)]
            _send(line, *messages)
        else:
            _send(line, dumps(_content(part)))

    def _answer(self, line: Connection) -> Answer | WorkerDied:
        """The answer of a worker, or the reason of its death; a dead worker is removed."""
        message = None
        with suppress(EOFError, ConnectionResetError):
            message = line.recv_bytes()
        if message is not None and not message.startswith(FAILED):
            shared = self.shared[line]
            if shared is not None and message.startswith(SHARED):
                return shared.read(message)
            return Answer(message)
        line.close()
        if (shared := self.shared.pop(line)) is not None:
            shared.close()
        return death_of(self.workers.pop(line), message)


def _send(line: Connection, *messages: bytes) -> None:
    """Send messages to a worker. That it is dead is found when its answer is read."""
    with suppress(BrokenPipeError, ConnectionResetError):
        for message in messages:
            line.send_bytes(message)


def _content(part: Part) -> object:
    """What is sent of a part."""
    if isinstance(part, EvalBatch):
        return part.inputs
    return part.clients, part.ids, part.states


def _output(answer: Answer | WorkerDied, device: str) -> Any:
    """The output of a test batch, or an exception."""
    if isinstance(answer, WorkerDied):
        return answer
    try:
        return opened(answer.content, answer.tensors, device=device)
    except Exception as error:
        return error


def _outcomes(
    part: RequestColumns, answer: Answer | WorkerDied, device: str
) -> Sequence[PoolOutcome]:
    if isinstance(answer, WorkerDied):
        return [
            ClientFailure(request.client, request.id, CRASHED, answer.reason, answer)
            for request in part
        ]
    try:
        outcomes: Sequence[PoolOutcome] = opened(answer.content, answer.tensors, device=device)
    except Exception as error:
        return [ClientFailure.by(error, request.client, request.id) for request in part]
    return outcomes
