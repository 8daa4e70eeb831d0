"""Where visits happen: in this process, or in worker processes. Both give the same bits for equal threads."""

from __future__ import annotations

import io
import multiprocessing
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

import torch
from torch import Tensor

from fedflat.allocator import huge_pages, keep_memory
from fedflat.client.piece import Memory
from fedflat.client.visit import ClientJob, Letter, visit
from fedflat.data.federation import Federation
from fedflat.errors import FedflatError, SettingError, number
from fedflat.mail import Mail, Reply, Sheaf
from fedflat.profiling.taps import Taps, tapped

SMALL = 50_000
"""Parameters below which one thread is faster than two."""

Visited = tuple[Reply | Sheaf, Memory]
"""A reply and what the client remembers; or those of several clients, in rows."""
Source = Callable[[], Federation]
"""A picklable way to the data."""


class Crew(Protocol):
    """Those who make the visits of one run."""

    def visit(self, letters: Sequence[Letter]) -> Iterator[Visited]:
        """Replies and new memories, in the order of the letters."""
        ...


class Executor(Protocol):
    """A way to make visits."""

    def open(self, job: ClientJob, fed: Federation, source: Source) -> Any:
        """A context manager around a crew."""
        ...


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Operations in here are shared by ``n`` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class InProcess:
    """One visit after the other, here.

    ``threads`` work inside each operation; None leaves the number to torch, but takes one for a small model, whose
    operations are too short to share.
    """

    threads: int | None = None

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[Crew]:
        """A crew of one."""
        keep_memory()
        small = job.task.flat.layout.dim < SMALL
        with threads(self.threads or (1 if small else torch.get_num_threads())):
            yield _Alone(job, fed)


@dataclass(frozen=True)
class _Alone:
    job: ClientJob
    fed: Federation

    def visit(self, letters: Sequence[Letter]) -> Iterator[Visited]:
        for letter in letters:
            yield visit(self.job, letter, self.fed.data(letter.client))


@dataclass(frozen=True)
class Workers:
    """``n`` clients at a time, each in a process of its own with ``threads`` threads.

    A client is not bound to a worker: its memory travels with the letter and comes back.
    """

    n: int
    threads: int = 1

    def __post_init__(self) -> None:
        number("workers", "n", self.n, low=1, whole=True)
        number("workers", "threads", self.threads, low=1, whole=True)

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[Crew]:
        """Start the processes; end them in any case."""
        try:
            order = dumps((job, source, self.threads))
        except Exception as error:
            raise SettingError(
                f"the run cannot be sent to worker processes: {error}. Models, losses and data given in Python must "
                "be picklable (defined at the top level of a module), or run without workers."
            ) from error
        context = multiprocessing.get_context("spawn")
        crew, processes, taps = _Crew([]), [], Taps(context)
        try:
            keep_memory()
            with _deaf_children(), huge_pages():
                for _ in range(self.n):
                    ours, theirs = context.Pipe()
                    process = context.Process(target=_work, args=(theirs, taps.cut()), daemon=True)
                    process.start()
                    theirs.close()
                    crew.desks.append(ours)
                    processes.append(process)
            for desk in crew.desks:
                _send(desk, order)
            for desk in crew.desks:
                _opened(_receive(desk))
            yield crew
        finally:
            for process in processes:
                process.terminate()
            taps.collect()
            for desk in crew.desks:
                desk.close()
            for process in processes:
                process.kill()
                process.join()


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes started in here never hear Ctrl-C, which a terminal sends to all: ending them is our business."""
    resource_tracker.ensure_running()  # else the first process starts it, which lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass
class _Crew:
    desks: list[Connection]

    def visit(self, letters: Sequence[Letter]) -> Iterator[Visited]:
        """Hand letters out as workers get free, at most two for each worker ahead of what was handed on.

        What is done with a reply is done by one thread: the cores are the workers'.
        """
        told: dict[Connection, Mail] = {}
        idle, sent = list(self.desks), 0
        busy: dict[Connection, int] = {}
        done: dict[int, bytes] = {}
        with threads(1):
            for place in range(len(letters)):
                while True:
                    while idle and sent < min(len(letters), place + 2 * len(self.desks)):
                        desk = idle.pop()
                        self._hand(desk, letters[sent], told)
                        busy[desk], sent = sent, sent + 1
                    if place in done:
                        break
                    for ready in wait(list(busy)):
                        assert isinstance(ready, Connection)
                        done[busy.pop(ready)] = _receive(ready)
                        idle.append(ready)
                yield _opened(done.pop(place))

    def _hand(self, desk: Connection, letter: Letter, told: dict[Connection, Mail]) -> None:
        if told.get(desk) is not letter.mail:  # the same for all of an exchange: once is enough
            told[desk] = letter.mail
            _send(desk, dumps(letter.mail))
        _send(desk, dumps((letter.client, letter.memory)))


def _send(desk: Connection, message: bytes) -> None:
    try:
        desk.send_bytes(message)
    except (BrokenPipeError, ConnectionResetError):
        raise _died() from None


def _died() -> FedflatError:
    return FedflatError(
        "a worker process died without a word, most likely killed for want of memory. Use fewer workers or a "
        "smaller batch; the run can be resumed from its last checkpoint."
    )


def _receive(desk: Connection) -> bytes:
    try:
        return desk.recv_bytes()
    except (EOFError, ConnectionResetError):
        raise _died() from None


def _opened(message: bytes) -> Any:
    outcome = loads(message)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _work(desk: Connection, tap: Connection | None) -> None:
    """The life of a worker: read the order, then answer letters until the line goes dead."""
    try:
        try:
            keep_memory()
            job, source, count = loads(desk.recv_bytes())
            torch.set_num_threads(count)
            fed = source()
        except Exception as error:
            _answer(desk, error)
            return
        _answer(desk, None)
        with tapped(tap):
            _serve(desk, job, fed)
    except (EOFError, ConnectionResetError, BrokenPipeError):
        return


def _serve(desk: Connection, job: ClientJob, fed: Federation) -> None:
    while True:
        message = loads(desk.recv_bytes())
        if isinstance(message, Mail):
            mail = message
            continue
        client, memory = message
        try:
            _answer(desk, visit(job, Letter(client, mail, memory), fed.data(client)))
        except Exception as error:
            _answer(desk, error)


def _answer(desk: Connection, outcome: Visited | Exception | None) -> None:
    if isinstance(outcome, Exception):
        outcome.add_note("".join(traceback.format_exception(outcome)))
        outcome = _portable(outcome)
    desk.send_bytes(dumps(outcome))


def _portable(error: Exception) -> Exception:
    """The error itself, or one that says the same if it cannot be sent."""
    try:
        loads(dumps(error))
        return error
    except Exception:
        same = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", []):
            same.add_note(note)
        return same


class _Pickler(pickle.Pickler):
    """Tensors travel as plain arrays: no shared-memory handles that could be left behind."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is Tensor and value.device.type == "cpu" and not value.requires_grad:
            return torch.from_numpy, (value.detach().numpy(),)
        return NotImplemented


def dumps(value: Any) -> bytes:
    """Bytes from which `loads` makes the value again."""
    stream = io.BytesIO()
    _Pickler(stream, protocol=5).dump(value)
    return stream.getvalue()


def loads(message: bytes) -> Any:
    """What `dumps` made bytes of; between our own processes only."""
    return pickle.loads(message)
