"""Several clients at a time, each in a worker process: the same bits as in this one, for equal
threads."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from fedflat.client.training import ClientJob, Request
from fedflat.core.failures import CRASHED, ClientFailure
from fedflat.core.messages import Broadcast
from fedflat.data.federation import Federation
from fedflat.errors import MOST_PROCESSES, SettingError, number
from fedflat.execution.client_pool import ClientPool, Left, PoolOutcome, Source, Then, threads
from fedflat.execution.interrupt import ALL
from fedflat.execution.main_module import REMEDY, MainModule, hidden, main_module_of
from fedflat.execution.pickling import dumps, opened, packed
from fedflat.execution.profiling.worker_samples import Taps
from fedflat.execution.safe_path import safe_path
from fedflat.execution.worker_died import WorkerDied, death_of
from fedflat.execution.worker_start import FAILED, start
from fedflat.kernels.allocator import huge_pages, keep_memory
from fedflat.registry.plugins import Named, named_plugins
from fedflat.registry.specs import TextSpec, register


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@register("executor", "workers")
@dataclass(frozen=True, repr=False)
class Workers(TextSpec):
    """Several clients at a time, each in a worker process; by default one process per core.

    A client is not bound to a worker: its memory travels with the letter and comes back.
    """

    workers: int = field(default_factory=cores)
    threads: int = 1

    def __post_init__(self) -> None:
        number("workers", "workers", self.workers, low=1, high=MOST_PROCESSES, whole=True)
        number("workers", "threads", self.threads, low=1, high=MOST_PROCESSES, whole=True)

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[ClientPool]:
        """Start the processes; end them in any case."""
        order = pickle_job(job, source)
        if isinstance(order, str):
            raise SettingError(
                f"the run cannot be sent to worker processes: {order}. Models, losses and data given in Python must be "
                f"defined at the top level of a module that they can import. {REMEDY}"
            )
        pool = _WorkerPool(order, self.workers, self.threads)
        try:
            keep_memory()
            pool.fill()
            yield pool
        finally:
            pool.close()


@dataclass(frozen=True)
class PickledJob:
    """A job and the way to its data, ready to be sent."""

    content: bytes
    way: MainModule | None
    """How a worker gets the main module, if it must have it."""
    plugins: tuple[Named, ...]
    """What a worker must load to understand it."""


def pickle_job(job: ClientJob, source: Source) -> PickledJob | str:
    """The order for worker processes; or why there can be none, as the end of a sentence."""
    try:
        parcel = packed((job, source))
    except Exception as error:
        return f"it cannot be pickled ({error})"
    way, why = main_module_of(parcel.mains)
    return why or PickledJob(parcel.content, way, named_plugins())


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes started in here never hear what a terminal or a scheduler sends to all: ending them
    is our business."""
    resource_tracker.ensure_running()  # else the first process starts it, which lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ALL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


Place = tuple[int, int, Request]
"""Which exchange of a crew a letter belongs to, which one of it, or of which chain, it is, and the
letter."""


class _WorkerPool:
    def __init__(self, order: PickledJob, n: int, threads: int) -> None:
        self.order, self.n, self.threads = order, n, threads
        self.context = multiprocessing.get_context("spawn")
        self.taps = Taps(self.context)
        self.workers: dict[Connection, SpawnProcess] = {}
        self.busy: dict[Connection, Place] = {}
        """Who works on what."""
        self.exchanges = 0
        self.idle: list[Connection] = []
        self.told: dict[Connection, Broadcast] = {}
        """What each of them was sent last in this exchange."""

    def fill(self) -> None:
        """Start as many processes as are missing, and wait until they are ready."""
        missing, new = self.n - len(self.workers), list[Connection]()
        if not missing:
            return
        with safe_path() as before, _deaf_children(), huge_pages(), hidden():
            for _ in range(missing):
                ours, theirs = self.context.Pipe()
                process = self.context.Process(
                    target=start, args=(theirs, self.taps.cut(), before), daemon=True
                )
                process.start()
                theirs.close()
                self.workers[ours] = process
                new.append(ours)
        for line in new:
            _send(
                line, dumps((self.order.way, self.order.plugins, self.threads)), self.order.content
            )
        for line in new:
            answer = self._answer(line)
            if isinstance(answer, WorkerDied):
                raise answer
            opened(answer)
        self.idle += new

    def close(self) -> None:
        """End all of them, in the middle of a visit too."""
        self.taps.collect(self.workers.values())
        for line, process in self.workers.items():
            line.close()
            process.kill()
            process.join()

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        """Hand letters out as workers get free, at most two for each worker ahead of what was
        handed on.

        What is done with a reply is done by one thread: the cores are the workers'. Answers to
        letters of an exchange that was given up are dropped when they come. A worker that dies
        leaves its client missing. It is replaced when the caller goes on without that client and
        letters are left: a run that fails does not wait for a new process.
        """
        self._begin()
        sent, done = 0, dict[int, tuple[Request, bytes | WorkerDied]]()
        with threads(1):
            for place in range(len(requests)):
                while True:
                    while self.idle and sent < min(len(requests), place + 2 * len(self.workers)):
                        self._hand(sent, requests[sent])
                        sent += 1
                    if place in done:
                        break
                    done |= {at: (request, answer) for at, request, answer in self._answers()}
                request, answer = done.pop(place)
                yield _outcome(request, answer)
                if isinstance(answer, WorkerDied) and sent < len(requests):
                    self.fill()

    def run_chains(
        self, requests: Sequence[Request], then: Then, left: Left
    ) -> Iterator[PoolOutcome]:
        """As `visit`, along chains: workers that get free go on with the chain that has most left
        to do.

        If that is another one than the worker's own, it is handed out before the reply is even
        read.
        """
        self._begin()
        waiting = dict(enumerate(requests))
        """Chains that nobody works on, and their next letters."""
        made, done = [0] * len(requests), dict[int, PoolOutcome]()

        def hand_out(least: float = 0.0) -> None:
            """Give chains with at least so much left to workers that are idle."""
            while self.idle and waiting:
                most, place = max((left(one, made[one]), -one) for one in waiting)
                if most < least:
                    return
                self._hand(-place, waiting.pop(-place))

        with threads(1):
            for place in range(len(requests)):
                while place not in done:
                    hand_out()
                    for at, request, answer in self._answers():
                        made[at] += 1
                        hand_out(left(at, made[at]))
                        outcome = _outcome(request, answer)
                        following = then(at, outcome)
                        if following is None:
                            done[at] = outcome
                        else:
                            waiting[at] = following
                        if isinstance(answer, WorkerDied) and waiting:
                            self.fill()
                yield done.pop(place)

    def _begin(self) -> None:
        self.exchanges, self.told = self.exchanges + 1, {}
        self.idle = [line for line in self.workers if line not in self.busy]
        self.fill()

    def _answers(self) -> Iterator[tuple[int, Request, bytes | WorkerDied]]:
        """Wait for workers; what those answer whose letters are of this exchange, all of whom are
        idle then."""
        for ready in wait(list(self.busy)):
            assert isinstance(ready, Connection)
            (exchange, at, request), answer = self.busy.pop(ready), self._answer(ready)
            self.idle += [ready] if ready in self.workers else []
            if exchange == self.exchanges:
                yield at, request, answer
            elif ready not in self.workers:
                self.fill()

    def _hand(self, at: int, request: Request) -> None:
        """Give a letter to a worker that is idle."""
        line = self.idle.pop()
        self.busy[line] = self.exchanges, at, request
        if (
            self.told.get(line) is not request.broadcast
        ):  # the same for all of an exchange: once is enough
            self.told[line] = request.broadcast
            _send(line, dumps(request.broadcast))
        _send(line, dumps((request.client, request.state, request.id)))

    def _answer(self, line: Connection) -> bytes | WorkerDied:
        """What a worker answers, or why it died; a dead worker is removed."""
        message = None
        with suppress(EOFError, ConnectionResetError):
            message = line.recv_bytes()
        if message is not None and not message.startswith(FAILED):
            return message
        line.close()
        return death_of(self.workers.pop(line), message)


def _send(line: Connection, *messages: bytes) -> None:
    """Send messages to a worker. That it is dead is found when its answer is read."""
    with suppress(BrokenPipeError, ConnectionResetError):
        for message in messages:
            line.send_bytes(message)


def _outcome(request: Request, answer: bytes | WorkerDied) -> PoolOutcome:
    if isinstance(answer, WorkerDied):
        return ClientFailure(request.client, request.id, CRASHED, answer.reason, answer)
    try:
        outcome: PoolOutcome = opened(answer)
    except Exception as error:
        return ClientFailure.by(error, request.client, request.id)
    return outcome
