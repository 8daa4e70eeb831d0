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

_Kept = dict[tuple[int, int], tuple[DataSpec, Federation]]
_kept: ContextVar[_Kept | None] = ContextVar("_kept", default=None)


@contextmanager
def opened_once() -> Iterator[None]:
    """Context in which `opened` opens the same data and seed only once. Contexts may be nested."""
    if _kept.get() is not None:
        yield
        return
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def opened(on: DataSpec, seed: int) -> Federation:
    """``on.open(seed)``, or its cached result within `opened_once`."""
    kept = _kept.get()
    if kept is None:
        return on.open(seed)
    if (id(on), seed) not in kept:
        kept[id(on), seed] = (
            on,
            on.open(seed),
        )  # keep the data alive, so that their id is not reused
    return kept[id(on), seed][1]
