"""A thread that looks every few milliseconds at the stack of the thread it was started from.

The time between two looks is halved between what they saw. Looks come one in each stretch of
`PAUSE` seconds, at a random place in it: they neither drift nor march in step with work that
repeats. If the looks cost more than `MOST` of the time, they come less often.

A look needs the interpreter's lock. While the thread looked at keeps it, the look waits, at most
for the interpreter's switch interval (5 ms): time spent in Python between two operations of torch
is counted for the second of them.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from types import CodeType
from typing import NamedTuple

PAUSE = 0.005
"""Seconds between two looks."""
MOST = 0.01
"""The share of the time that looking may cost."""


class StackFrame(NamedTuple):
    """A function on a stack."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


Stack = tuple[StackFrame, ...]
"""Functions, the outermost first."""


class SampleCount(NamedTuple):
    """How often a stack was sampled, and the seconds of these samples."""

    times: int
    seconds: float


@dataclass(frozen=True)
class Samples:
    """The samples of a sampler; picklable."""

    stacks: dict[Stack, SampleCount]
    cost: float
    """Seconds of computing that the looks took."""

    @property
    def count(self) -> int:
        """Looks taken."""
        return sum(seen.times for seen in self.stacks.values())

    @property
    def seconds(self) -> float:
        """The time they stand for."""
        return sum(seen.seconds for seen in self.stacks.values())


class StackSampler:
    """Looks at the thread that enters it, until it is left.

    >>> with StackSampler() as sampler:
    ...     total = sum(range(1_000_000))
    >>> sampler.samples().cost < 1
    True
    """

    def __init__(self) -> None:
        self._over = threading.Lock()
        self._thread = threading.Thread(target=self._look_on, name="fedflat-profile", daemon=True)
        self._watched = 0
        self._counts: defaultdict[tuple[int, ...], int] = defaultdict(int)
        self._seconds: defaultdict[tuple[int, ...], float] = defaultdict(float)
        self._known: dict[int, tuple[CodeType, StackFrame]] = {}
        self._cost = 0.0

    def __enter__(self) -> StackSampler:
        self._watched = threading.get_ident()
        self._over.acquire()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.release()
        self._thread.join()

    def samples(self) -> Samples:
        """The samples, after the context is left."""
        stacks: dict[Stack, SampleCount] = {}
        for codes, count in self._counts.items():
            stack = tuple(self._known[code][1] for code in reversed(codes))
            before = stacks.get(stack, SampleCount(0, 0.0))
            stacks[stack] = SampleCount(before.times + count, before.seconds + self._seconds[codes])
        return Samples(stacks, self._cost)

    def _look_on(self) -> None:
        dice = random.Random(0)
        stretch = last = time.perf_counter()
        begun, pause, looks, before = time.thread_time(), PAUSE, 0, None
        while not self._over.acquire(
            timeout=max(0.0, stretch + dice.random() * pause - time.perf_counter())
        ):
            codes = self._look()
            now = time.perf_counter()
            self._counts[codes] += 1
            self._seconds[codes] += (now - last) / 2
            self._seconds[before or codes] += (now - last) / 2
            before, last, looks = codes, now, looks + 1
            self._cost = time.thread_time() - begun
            pause = max(PAUSE, self._cost / looks / MOST)
            stretch += pause * (1 + max(0, (now - stretch) // pause))
        if before is not None:
            self._seconds[before] += time.perf_counter() - last
        self._over.release()

    def _look(self) -> tuple[int, ...]:
        """The code of the functions on the stack, innermost first; no frame is held on to, nor what
        is in it."""
        frame, codes = sys._current_frames().get(self._watched), []
        while frame is not None:
            code = frame.f_code
            if id(code) not in self._known:
                self._known[id(code)] = (
                    code,
                    StackFrame(frame.f_globals.get("__name__", "?"), code.co_qualname),
                )
            codes.append(id(code))
            frame = frame.f_back
        return tuple(codes)
