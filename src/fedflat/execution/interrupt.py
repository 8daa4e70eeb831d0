"""Being asked to end: Ctrl-C, and the signals of schedulers and closed terminals, which are treated
as Ctrl-C is.

At a bad moment they wait until the moment is over; before anything has begun they end the process
with one line.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""What schedulers and closed terminals send."""
ALL = (signal.SIGINT, *ENDING)
Handler = Callable[[int, FrameType | None], None]
"""A signal handler: number of the signal, and where it came."""


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


class Signals:
    """The handlers of signals that ask a run to end, set once for the run.

    A signal that comes while ``lock`` is held waits for `deliver`, so that what belongs together is
    written together.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiting: list[Callable[[], None]] = []
        """Signals that came while the lock was held."""
        self.received: list[int] = []
        """The signal that raised `Terminated`."""
        self._own: dict[int, Handler] = {}
        self._before: dict[int, Any] = {}

    def as_ctrl_c(self) -> None:
        """Raise `Terminated` at `ENDING` signals that have no handler."""
        self._replace(ENDING, lambda handler: handler is signal.SIG_DFL)

    def take_over(self) -> None:
        """Let signals wait for the lock before they reach the handlers that are set now."""
        self._replace(ALL, callable)

    def deliver(self) -> None:
        """Handle the first signal that waited, if there is one."""
        if self.waiting:
            first = self.waiting[0]
            self.waiting.clear()
            first()

    @contextmanager
    def delayed(self) -> Iterator[None]:
        """Let signals wait until the block is done."""
        with self.lock:
            yield
        self.deliver()

    def restore(self) -> None:
        """Set the handlers of before, except where the run has set others."""
        for number, own in self._own.items():
            if signal.getsignal(number) is own:
                signal.signal(number, self._before[number])

    def _replace(self, numbers: Sequence[int], where: Callable[[Any], bool]) -> None:
        for number in numbers if _ours() else ():
            before = signal.getsignal(number)
            if before is not self._own.get(number) and where(before):
                self._before[number], self._own[number] = before, self._handler(before)
                signal.signal(number, self._own[number])

    def _handler(self, before: Any) -> Handler:
        def handle(number: int, frame: FrameType | None) -> None:
            if self.lock.locked():
                self.waiting.append(partial(handle, number, frame))
            elif callable(before):
                before(number, frame)
            elif not self.received:  # else it ends already
                self.received.append(number)
                raise Terminated(number)

        return handle


@contextmanager
def signals_as_ctrl_c() -> Iterator[Signals]:
    """`ENDING` signals raise `Terminated` in here, once, where they would have ended the process
    without a word."""
    signals = Signals()
    signals.as_ctrl_c()
    try:
        yield signals
    except KeyboardInterrupt as stopped:
        if signals.received and not isinstance(stopped, Terminated):  # Ray makes it one of its own
            raise Terminated(signals.received[0]) from stopped
        raise
    finally:
        signals.restore()


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


def _set(handlers: dict[int, Any]) -> dict[int, Any]:
    """Set signal handlers; those there were."""
    return {number: signal.signal(number, handler) for number, handler in handlers.items()}


def _usual(number: int) -> bool:
    return signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)


def _ours() -> bool:
    """Signals are the business of the main thread."""
    return threading.current_thread() is threading.main_thread()
