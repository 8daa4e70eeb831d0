"""Examples that were read from files, kept within a memory budget, and read ahead by threads.

One `Decoded` serves all sets of a process that have the same budget. Which examples are kept and
when they were read changes no bit of any batch: an example is what its file holds, and a file that
cannot be read is an error when its batch is cut, not when a thread came upon it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from threading import Lock
from typing import Any, NamedTuple

from fedflat.data.batch import arguments
from fedflat.errors import DataError

READERS = 4
"""Threads that read and decode."""
Reader = Callable[[str], Any]
"""Makes an example of the file at a path: a function, or a frozen dataclass, that can be hashed and
pickled."""


class Key(NamedTuple):
    """An example in a file as it was when the set was opened."""

    read: Reader
    path: str
    size: int
    written: int


class Decoded:
    """Examples by key: at most ``budget`` bytes of them, those not used for longest go first."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.held = 0
        """Bytes of what is kept."""
        self._kept: OrderedDict[Key, Any] = OrderedDict()
        self._coming: dict[Key, Future[Any]] = {}
        self._largest = 0
        self._lock = Lock()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="fedflat-reader")

    def take(self, wanted: Sequence[Key]) -> list[Any]:
        """These examples, read if they are not there."""
        with self._lock:
            found = {key: self._kept.get(key) for key in wanted}
            asked = {key: self._asked(key) for key, example in found.items() if example is None}
            for key in found:
                if key in asked:
                    found[key] = asked[key].result()
                else:
                    self._kept.move_to_end(key)
            for key in asked:
                self._keep(key, found[key])
        return [found[key] for key in wanted]

    def expect(self, wanted: Sequence[Key]) -> None:
        """Begin to read what will be asked for next, as far as the budget allows."""
        with self._lock:
            soon = dict.fromkeys(wanted)
            self._settle(soon)
            for key in self._kept.keys() & soon.keys():
                self._kept.move_to_end(key)
            for key in soon:
                if key not in self._kept and key not in self._coming:
                    if not self._largest or not self._room(1, soon):
                        return
                    self._coming[key] = self._readers.submit(_example, key)

    def _asked(self, key: Key) -> Future[Any]:
        return self._coming.pop(key, None) or self._readers.submit(_example, key)

    def _settle(self, soon: Iterable[Key]) -> None:
        """Keep, or give up, what was expected and has not been asked for."""
        for key, future in [
            (key, future) for key, future in self._coming.items() if key not in soon
        ]:
            if future.cancel() or future.done():
                del self._coming[key]
                if not future.cancelled() and future.exception() is None:
                    self._keep(key, future.result())

    def _keep(self, key: Key, example: Any) -> None:
        size = _bytes(example)
        self._largest = max(self._largest, size)
        self._kept[key] = example
        self.held += size
        self._room(0, ())

    def _room(self, more: int, spared: Iterable[Key]) -> bool:
        """Let go of the oldest until there is room for what is coming and ``more``; whether there
        is."""
        while self.held + (len(self._coming) + more) * self._largest > self.budget:
            oldest = next(iter(self._kept), None)
            if oldest is None or oldest in spared:
                return False
            self.held -= _bytes(self._kept.pop(oldest))
        return True


@cache
def decoded(budget: int) -> Decoded:
    """What this process keeps within ``budget`` bytes."""
    return Decoded(budget)


def _bytes(example: Any) -> int:
    return sum(
        _bytes(part) if isinstance(part, tuple) else int(part.nbytes) for part in arguments(example)
    )


def _example(key: Key) -> Any:
    try:
        return key.read(key.path)
    except DataError:  # a sentence of its own
        raise
    except Exception as error:  # decoders raise many kinds
        why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        raise DataError(
            f"{key.path} cannot be read ({why}). Put the file right, or take it out."
        ) from error
