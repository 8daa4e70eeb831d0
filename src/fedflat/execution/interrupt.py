"""Being asked to end: Ctrl-C, and the signals of schedulers and closed terminals, which are treated
as Ctrl-C is.

At a bad moment they wait until the moment is over; before anything has begun they end the process
with one line.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""What schedulers and closed terminals send."""
ALL = (signal.SIGINT, *ENDING)


class Terminated(KeyboardInterrupt, SystemExit):
    """A signal asked the process to end: handled like Ctrl-C, else an exit status."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number, self.code = number, 128 + number


STOPPED = 128 + signal.SIGINT
"""Exit status of a process that was stopped by Ctrl-C."""


def status_of(stopped: KeyboardInterrupt) -> int:
    """The exit status of a process that was stopped so."""
    return 128 + (stopped.number if isinstance(stopped, Terminated) else signal.SIGINT)


@contextmanager
def signals_as_ctrl_c() -> Iterator[None]:
    """`ENDING` signals raise `Terminated` in here, once, where they would have ended the process
    without a word."""
    received: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        received.append(number)
        _set(dict.fromkeys(mine, signal.SIG_IGN))  # it ends already
        raise Terminated(number)

    mine = [number for number in ENDING if _ours() and signal.getsignal(number) is signal.SIG_DFL]
    before = _set(dict.fromkeys(mine, end))
    try:
        yield
    except KeyboardInterrupt as stopped:
        if received and not isinstance(stopped, Terminated):  # Ray makes it one of its own
            raise Terminated(received[0]) from stopped
        raise
    finally:
        _set(before)


@contextmanager
def signals_exit_at_once() -> Iterator[None]:
    """Nothing has begun yet, and what is imported may take an exception badly: leave with one
    line."""

    def leave(number: int, frame: FrameType | None) -> None:
        os.write(2, b"fedflat: stopped before it began. Nothing was written.\n")
        os._exit(128 + number)

    before = _set({number: leave for number in ALL if _ours() and _usual(number)})
    try:
        yield
    finally:
        _set(before)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold a signal back until the block is done, so that what belongs together happens
    together."""
    held: list[tuple[int, FrameType | None]] = []

    def hold(number: int, frame: FrameType | None) -> None:
        held.append((number, frame))

    before = _set(
        {number: hold for number in ALL if _ours() and callable(signal.getsignal(number))}
    )
    try:
        yield
    finally:
        _set(before)
    if held:
        before[held[0][0]](*held[0])


def _set(handlers: dict[int, Any]) -> dict[int, Any]:
    """Set signal handlers; those there were."""
    return {number: signal.signal(number, handler) for number, handler in handlers.items()}


def _usual(number: int) -> bool:
    return signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)


def _ours() -> bool:
    """Signals are the business of the main thread."""
    return threading.current_thread() is threading.main_thread()
