"""A cache of opened data sets.

A study opens its data to choose a model, again to check every run before the first begins, and
again for each run. The cached objects are small: named sets are read once per process anyway, and a
partition is a list of positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fedflat.data.federation import DataSpec, Federation

_Opened = dict[tuple[int, int], tuple[DataSpec, Federation]]
_opened: ContextVar[_Opened | None] = ContextVar("_opened", default=None)


@contextmanager
def opened_once() -> Iterator[None]:
    """Context in which `opened` opens the same data and seed only once. Contexts may be nested."""
    if _opened.get() is not None:
        yield
        return
    token = _opened.set({})
    try:
        yield
    finally:
        _opened.reset(token)


def opened(on: DataSpec, seed: int) -> Federation:
    """``on.open(seed)``, or its cached result within `opened_once`."""
    opened = _opened.get()
    if opened is None:
        return on.open(seed)
    if (id(on), seed) not in opened:
        # Keep the data alive, so that their id is not reused.
        opened[id(on), seed] = (
            on,
            on.open(seed),
        )
    return opened[id(on), seed][1]
