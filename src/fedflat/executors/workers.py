"""Several clients at a time, each in a worker process: the same bits as in this one, for equal threads."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait

from fedflat.client.visit import ClientJob, Letter
from fedflat.data.federation import Federation
from fedflat.engine.mail import Mail
from fedflat.errors import MOST_PROCESSES, SettingError, number
from fedflat.executors.allocator import huge_pages, keep_memory
from fedflat.executors.crew import Crew, Source, Visited, threads
from fedflat.executors.interrupt import ALL
from fedflat.executors.main_module import REMEDY, Way, hidden, way_to_main
from fedflat.executors.parcel import dumps, opened, packed, receive, send
from fedflat.executors.worker import work
from fedflat.language.plugins import Named, named_plugins
from fedflat.profiling.taps import END, Taps


@dataclass(frozen=True)
class Workers:
    """``n`` clients at a time, each in a process of its own with ``threads`` threads.

    A client is not bound to a worker: its memory travels with the letter and comes back.
    """

    n: int
    threads: int = 1

    def __post_init__(self) -> None:
        number("workers", "n", self.n, low=1, high=MOST_PROCESSES, whole=True)
        number("workers", "threads", self.threads, low=1, high=MOST_PROCESSES, whole=True)

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[Crew]:
        """Start the processes; end them in any case."""
        order = order_for(job, source)
        if isinstance(order, str):
            raise SettingError(
                f"the run cannot be sent to worker processes: {order}. Models, losses and data given in Python must be "
                f"defined at the top level of a module that they can import. {REMEDY}"
            )
        context = multiprocessing.get_context("spawn")
        crew, processes, taps = _Crew([]), [], Taps(context)
        try:
            keep_memory()
            with _deaf_children(), huge_pages(), hidden():
                for _ in range(self.n):
                    ours, theirs = context.Pipe()
                    process = context.Process(target=work, args=(theirs, taps.cut()), daemon=True)
                    process.start()
                    theirs.close()
                    crew.desks.append(ours)
                    processes.append(process)
            for desk in crew.desks:
                send(desk, dumps((order.way, order.plugins, self.threads)))
                send(desk, order.content)
            for desk in crew.desks:
                opened(receive(desk))
            yield crew
        finally:
            for process in processes:
                if process.pid is not None and process.is_alive():
                    os.kill(process.pid, END)
            taps.collect()
            for desk in crew.desks:
                desk.close()
            for process in processes:
                process.kill()
                process.join()


@dataclass(frozen=True)
class Order:
    """A job and the way to its data, ready to be sent."""

    content: bytes
    way: Way | None
    """How a worker gets the main module, if it must have it."""
    plugins: tuple[Named, ...]
    """What a worker must load to understand it."""


def order_for(job: ClientJob, source: Source) -> Order | str:
    """The order for worker processes; or why there can be none, as the end of a sentence."""
    try:
        parcel = packed((job, source))
    except Exception as error:
        return f"it cannot be pickled ({error})"
    way, why = way_to_main(parcel.mains)
    return why or Order(parcel.content, way, named_plugins())


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes started in here never hear what a terminal or a scheduler sends to all: ending them is our business."""
    resource_tracker.ensure_running()  # else the first process starts it, which lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ALL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass
class _Crew:
    desks: list[Connection]
    busy: dict[Connection, int] = field(default_factory=dict)
    """Who works on which letter, counted from the first of the exchange."""

    def visit(self, letters: Sequence[Letter]) -> Iterator[Visited]:
        """Hand letters out as workers get free, at most two for each worker ahead of what was handed on.

        What is done with a reply is done by one thread: the cores are the workers'.
        """
        self._forget()
        told: dict[Connection, Mail] = {}
        idle, sent = list(self.desks), 0
        done: dict[int, bytes] = {}
        with threads(1):
            for place in range(len(letters)):
                while True:
                    while idle and sent < min(len(letters), place + 2 * len(self.desks)):
                        self._hand(idle[-1], letters[sent], told)
                        self.busy[idle.pop()], sent = sent, sent + 1
                    if place in done:
                        break
                    for ready in wait(list(self.busy)):
                        assert isinstance(ready, Connection)
                        done[self.busy.pop(ready)] = receive(ready)
                        idle.append(ready)
                yield opened(done.pop(place))

    def _forget(self) -> None:
        """Take the answers that nobody waited for, of an exchange that was given up, out of the way."""
        while self.busy:
            receive(self.busy.popitem()[0])

    def _hand(self, desk: Connection, letter: Letter, told: dict[Connection, Mail]) -> None:
        if told.get(desk) is not letter.mail:  # the same for all of an exchange: once is enough
            told[desk] = letter.mail
            send(desk, dumps(letter.mail))
        send(desk, dumps((letter.client, letter.memory)))
