"""When clients are there: they come and go by themselves, or as a file says.

The time is simulated seconds since the run began (``by="seconds"``), or counted in rounds
(``by="rounds"``: round t is the time t). By seconds a client may leave in the middle of a visit; by
rounds it is there for a whole round, or is not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from fedflat.core.seeds import numpy_generator
from fedflat.errors import LARGEST, LONGEST_WAIT, DataError, choice, is_number, number, shown
from fedflat.registry.specs import TextSpec, register
from fedflat.simulation.json_file import check_path, digest_of, entries_of, refuse_missing

SECONDS, ROUNDS = UNITS = ("seconds", "rounds")
AHEAD = 16
"""Changes of a client that are drawn at once."""


@dataclass(frozen=True, repr=False)
class Availability(TextSpec, ABC):
    """A frozen dataclass that knows of every client and every time whether it is there."""

    by: str = field(default=SECONDS, kw_only=True)

    def check(self, population: int) -> None:
        """Refuse clients that nothing is known of."""

    def digest(self) -> str:
        """A digest of what it reads from files; "" if it reads none."""
        return ""

    def until(self, client: int, seed: int, t: int, at: float) -> float | None:
        """Until when a client stays that is there at the second ``at`` in round ``t``; None if it
        is away."""
        end = self.stays(client, seed, float(t) if self.by == ROUNDS else at)
        return inf if end is not None and self.by == ROUNDS else end

    @abstractmethod
    def stays(self, client: int, seed: int, at: float) -> float | None:
        """The same by its own time."""


@dataclass(frozen=True)
class _Life:
    """A client's coming and going, as far as it was drawn."""

    begins: bool
    """Whether it is there at the start."""
    changes: list[float]
    """When it comes or goes."""

    def there(self, changes: int) -> bool:
        """Whether it is there after so many changes."""
        return self.begins == (changes % 2 == 0)


@dataclass(frozen=True, repr=False)
class OnOff(Availability):
    """Clients are there for a while and away for a while, of ``on`` and ``off`` on average,
    exponentially distributed.

    At the start each is there with the probability on / (on + off), as at any other time.
    """

    on: float
    off: float
    _known: dict[tuple[int, int], _Life] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        number("on_off", "on", self.on, low=0, open_low=True, high=LONGEST_WAIT)
        number("on_off", "off", self.off, low=0, high=LONGEST_WAIT)
        choice("on_off", "by", self.by, UNITS)

    def stays(self, client: int, seed: int, at: float) -> float | None:
        """Until the next change, if it is there."""
        if self.off == 0:
            return inf
        life = self._known.get((seed, client))
        if life is None:
            begins = numpy_generator(seed, "clock/there", client).random() < self.on / (
                self.on + self.off
            )
            life = self._known[seed, client] = _Life(bool(begins), [])
        while not life.changes or life.changes[-1] <= at:
            self._live_on(life, numpy_generator(seed, "clock/changes", client, len(life.changes)))
        place = bisect_right(life.changes, at)
        return life.changes[place] if life.there(place) else None

    def _live_on(self, life: _Life, rng: np.random.Generator) -> None:
        """Draw some more of a client's changes."""
        for drawn in rng.exponential(size=AHEAD).tolist():
            lasts = drawn * (self.on if life.there(len(life.changes)) else self.off)
            life.changes.append((life.changes[-1] if life.changes else 0.0) + lasts)


@dataclass(frozen=True, repr=False)
class Trace(Availability):
    """When each client is there, from a JSON file: ``{"0": [[0, 600], [900, 1200]], "1": ...}``,
    from and to.

    With ``every`` it begins again after so long.
    """

    path: str
    every: float | None = None

    def __post_init__(self) -> None:
        check_path("trace", self.path)
        if self.every is not None:
            number("trace", "every", self.every, low=0, open_low=True, high=LONGEST_WAIT)
        choice("trace", "by", self.by, UNITS)

    @cached_property
    def _spans(self) -> dict[str, list[tuple[float, float]]]:
        entries = entries_of("trace", self.path)
        return {
            client: _spans(f"trace: {self.path}: client {shown(client)}", said)
            for client, said in entries.items()
        }

    def check(self, population: int) -> None:
        """Refuse a file without an entry for each of them."""
        refuse_missing("trace", self.path, self._spans, population)

    def digest(self) -> str:
        """That of the file."""
        return digest_of("trace", self.path)

    def stays(self, client: int, seed: int, at: float) -> float | None:
        """Until the end of the span in which the time is; of spans that meet at the turn, until
        that of the second."""
        spans, turn = self._spans[str(client)], 0.0
        if self.every is not None:
            turn, at = at - at % self.every, at % self.every
        for begin, end in spans:
            if begin <= at < end:
                if self.every is not None and end >= self.every:
                    onward = next((stop for start, stop in spans if start == 0), 0.0)
                    return inf if onward >= self.every else turn + self.every + onward
                return turn + end
        return None


def _spans(where: str, said: Any) -> list[tuple[float, float]]:
    last = 0.0
    found = []
    if not isinstance(said, list):
        raise DataError(
            f"{where} must have a list of spans, as in [[0, 600], [900, 1200]], found {shown(said)}."
        )
    for span in said:
        fits = (
            isinstance(span, list)
            and len(span) == 2
            and all(is_number(x) and x <= LARGEST for x in span)
        )
        if not fits or not last <= span[0] < span[1]:
            raise DataError(
                f"{where}: spans must be pairs of rising numbers from 0 on, one after the other, found {shown(span)}."
            )
        found.append((float(span[0]), float(span[1])))
        last = found[-1][1]
    return found


on_off = register("availability", "on_off")(OnOff)
trace = register("availability", "trace")(Trace)
