"""Data that are asked for several times in one go, opened once.

A study looks at its data to choose a model, again to check every run before the first begins, and
again for each run. What is kept is small: named sets are read once a process anyway, and who holds
what is a list of places.
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
    """Until its end, `opened` opens the same data for the same seed once. Nested, the outermost one
    counts."""
    if _kept.get() is not None:
        yield
        return
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def opened(on: DataSpec, seed: int) -> Federation:
    """``on.open(seed)``, or what that gave before, within `opened_once`."""
    kept = _kept.get()
    if kept is None:
        return on.open(seed)
    if (id(on), seed) not in kept:
        kept[id(on), seed] = (
            on,
            on.open(seed),
        )  # the data are kept too, so that nothing else gets their id
    return kept[id(on), seed][1]
