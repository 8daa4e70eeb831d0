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

_collected: ContextVar[list[Samples] | None] = ContextVar("collected", default=None)


@contextmanager
def collecting_samples() -> Iterator[list[Samples]]:
    """Sample the workers that are started in this block; the list is filled when they end."""
    found: list[Samples] = []
    before = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(before)


class WorkerSamples:
    """The connections on which the workers of one pool send their samples, if profiling is on."""

    def __init__(self, context: SpawnContext) -> None:
        self.context, self.samples = context, _collected.get()
        self.connections: list[tuple[Connection, Connection]] = []

    def open_connection(self) -> Connection | None:
        """The worker's end of a new connection; None without profiling."""
        if self.samples is None:
            return None
        ours, theirs = self.context.Pipe(duplex=False)
        self.connections.append((ours, theirs))
        return theirs

    def collect(self, processes: Iterable[SpawnProcess]) -> None:
        """End profiled workers and take their samples. A worker that was killed before gives
        none."""
        if self.samples is None:
            return
        for process in processes:
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, END)
        for _, theirs in self.connections:
            theirs.close()
        end = time.monotonic() + PATIENCE
        for ours, _ in self.connections:
            with ours, suppress(EOFError, OSError):
                if ours.poll(max(0.0, end - time.monotonic())):
                    self.samples.append(pickle.loads(ours.recv_bytes()))


@contextmanager
def sampled(connection: Connection | None) -> Iterator[None]:
    """Sample the work in this block until the worker is stopped, even in the middle of a request."""
    if connection is None:
        yield
        return
    signal.signal(END, lambda number, frame: sys.exit())
    sampler = StackSampler()
    try:
        with sampler:
            yield
    finally:
        with suppress(OSError), connection:
            connection.send_bytes(pickle.dumps(sampler.samples()))
