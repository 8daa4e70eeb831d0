"""Worker processes that are looked at: each by a sampler of its own, whose samples it hands over
when it is ended."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess

from fedflat.execution.profiling.sampler import Samples, StackSampler

PATIENCE = 2.0
"""Seconds to wait for workers to hand their samples over when they are ended."""

END = signal.SIGUSR1
"""The signal that ends a profiled worker. Workers block the signals that a terminal or a scheduler
sends to a group."""

Found = list[Samples]
_wanted: ContextVar[Found | None] = ContextVar("wanted", default=None)


@contextmanager
def tapping() -> Iterator[Found]:
    """Workers started in here are looked at; the list is filled as they are ended."""
    found: Found = []
    before = _wanted.set(found)
    try:
        yield found
    finally:
        _wanted.reset(before)


class WorkerSamples:
    """The connections on which the workers of one pool send their samples, if profiling is on."""

    def __init__(self, context: SpawnContext) -> None:
        self.context, self.found = context, _wanted.get()
        self.lines: list[tuple[Connection, Connection]] = []

    def open_line(self) -> Connection | None:
        """The worker's end of a new line."""
        if self.found is None:
            return None
        ours, theirs = self.context.Pipe(duplex=False)
        self.lines.append((ours, theirs))
        return theirs

    def collect(self, processes: Iterable[SpawnProcess]) -> None:
        """End profiled workers and take their samples. A worker that was killed before gives
        none."""
        if self.found is None:
            return
        for process in processes:
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, END)
        for _, theirs in self.lines:
            theirs.close()
        end = time.monotonic() + PATIENCE
        for ours, _ in self.lines:
            with ours, suppress(EOFError, OSError):
                if ours.poll(max(0.0, end - time.monotonic())):
                    self.found.append(pickle.loads(ours.recv_bytes()))


@contextmanager
def sampled(line: Connection | None) -> Iterator[None]:
    """What a worker does in here is sampled until it is stopped, even in the middle of a
    request."""
    if line is None:
        yield
        return
    signal.signal(END, lambda number, frame: sys.exit())
    sampler = StackSampler()
    try:
        with sampler:
            yield
    finally:
        with suppress(OSError), line:
            line.send_bytes(pickle.dumps(sampler.samples()))
