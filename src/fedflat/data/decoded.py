"""A cache of examples read from files, with a memory budget and threads that read ahead.

One `Decoded` serves all sets of a process that have the same budget. What is cached and when it was
read does not change any batch. A file that cannot be read is an error when its batch is made, not
when a thread reads it ahead.
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
"""Number of threads that read and decode."""
Reader = Callable[[str], Any]
"""Reads the example in the file at a path: a function or a frozen dataclass that can be hashed and
pickled."""


class Key(NamedTuple):
    """An example in a file, as it was when the set was opened."""

    read: Reader
    path: str
    size: int
    written: int


class Decoded:
    """Examples by key: at most ``budget`` bytes; the least recently used are dropped first."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.held = 0
        """Bytes of the cached examples."""
        self._kept: OrderedDict[Key, Any] = OrderedDict()
        self._coming: dict[Key, Future[Any]] = {}
        self._largest = 0
        self._lock = Lock()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="fedflat-reader")

    def take(self, keys: Sequence[Key]) -> list[Any]:
        """These examples, read if they are not cached."""
        with self._lock:
            examples = {key: self._kept.get(key) for key in keys}
            futures = {
                key: self._future(key) for key, example in examples.items() if example is None
            }
            for key in examples:
                if key in futures:
                    examples[key] = futures[key].result()
                else:
                    self._kept.move_to_end(key)
            for key in futures:
                self._keep(key, examples[key])
        return [examples[key] for key in keys]

    def expect(self, keys: Sequence[Key]) -> None:
        """Start to read examples that are needed next, as far as the budget allows."""
        with self._lock:
            soon = dict.fromkeys(keys)
            self._collect(soon)
            for key in self._kept.keys() & soon.keys():
                self._kept.move_to_end(key)
            for key in soon:
                if key not in self._kept and key not in self._coming:
                    if not self._largest or not self._room(1, soon):
                        return
                    self._coming[key] = self._readers.submit(_example, key)

    def _future(self, key: Key) -> Future[Any]:
        return self._coming.pop(key, None) or self._readers.submit(_example, key)

    def _collect(self, soon: Iterable[Key]) -> None:
        """Cache or drop examples that were read ahead but not requested."""
        for key, future in [
            (key, future) for key, future in self._coming.items() if key not in soon
        ]:
            if future.cancel() or future.done():
                del self._coming[key]
                if not future.cancelled() and future.exception() is None:
                    self._keep(key, future.result())

    def _keep(self, key: Key, example: object) -> None:
        size = _bytes(example)
        self._largest = max(self._largest, size)
        self._kept[key] = example
        self.held += size
        self._room(0, ())

    def _room(self, more: int, spared: Iterable[Key]) -> bool:
        """Drop the oldest examples until ``more`` bytes fit; True if they fit."""
        while self.held + (len(self._coming) + more) * self._largest > self.budget:
            oldest = next(iter(self._kept), None)
            if oldest is None or oldest in spared:
                return False
            self.held -= _bytes(self._kept.pop(oldest))
        return True


@cache
def decoded(budget: int) -> Decoded:
    """The cache of this process with this budget."""
    return Decoded(budget)


def _bytes(example: object) -> int:
    return sum(
        _bytes(part) if isinstance(part, tuple) else int(part.nbytes) for part in arguments(example)
    )


def _example(key: Key) -> Any:
    try:
        return key.read(key.path)
    except DataError:  # it has a clear message already
        raise
    except Exception as error:  # decoders raise many types
        why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        raise DataError(
            f"{key.path} cannot be read ({why}). Repair the file, or remove it."
        ) from error
