"""When clients are available: at random, or as given in a file.

Time is in simulated seconds since the start of the run (`by="seconds"`), or in rounds
(`by="rounds"`: round t is time t). By seconds, a client may leave during its local training. By
rounds, it is available for a whole round or not at all.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from fedflat.core.seeds import numpy_generator
from fedflat.errors import (
    LARGEST,
    LONGEST_WAIT,
    DataError,
    SettingError,
    choice,
    is_number,
    number,
    shown,
)
from fedflat.files import Damaged, parse_json, read_file
from fedflat.registry.specs import TextSpec, register

MAX_NAMES = 5
"""Largest number of clients that a message names."""
FORM = 'must hold an object with an entry for every client, as in {"0": ..., "1": ...}'


def check_path(owner: str, path: object) -> None:
    """Raise `SettingError` if `path` cannot be the path of a file."""
    if not isinstance(path, str) or not path or "\0" in path:
        raise SettingError(
            f"{owner}: the path of a JSON file is needed, in quotes, found {shown(path)}."
        )


def content_of(owner: str, path: str) -> bytes:
    try:
        content = read_file(Path(os.path.expanduser(path)))
    except Damaged as error:
        raise DataError(f"{owner}: {path!r} cannot be read: {error}. Give a JSON file.") from None
    if content is None:
        raise DataError(
            f"{owner}: there is no file {path!r}. Give a JSON file with an entry for every client."
        )
    return content


def digest_of(owner: str, path: str) -> str:
    """Return a digest of the file. A run with another file is another run."""
    return sha256(content_of(owner, path)).hexdigest()


def entries_of(owner: str, path: str) -> dict[str, Any]:
    """Return the entries of the file, by client number as text."""
    try:
        entries = parse_json(content_of(owner, path))
    except Damaged as error:
        raise DataError(f"{owner}: {path!r} {FORM}, but is not JSON: {error}.") from None
    if not isinstance(entries, dict):
        raise DataError(f"{owner}: {path!r} {FORM}, found {shown(entries)}.")
    return entries


def refuse_missing(owner: str, path: str, entries: dict[str, Any], population: int) -> None:
    """Raise `DataError` if the file has no entry for some of the clients."""
    missing = [client for client in range(population) if str(client) not in entries]
    if missing:
        names = ", ".join(map(str, missing[:MAX_NAMES])) + (
            ", ..." if len(missing) > MAX_NAMES else ""
        )
        raise DataError(
            f"{owner}: {path} has no entry for {len(missing)} of the {population} clients: "
            f'{names}. Add one for every client, from "0" to "{population - 1}".'
        )


SECONDS, ROUNDS = UNITS = ("seconds", "rounds")
BLOCK = 16
"""Number of changes of a client that are sampled at once."""


@dataclass(frozen=True, repr=False)
class Availability(TextSpec, ABC):
    """Base class: when each client is available.

    by
        Unit of times: "seconds" or "rounds".
    """

    by: str = field(default=SECONDS, kw_only=True)

    def check(self, population: int) -> None:
        """Raise an error if there is no information about one of the clients."""

    def digest(self) -> str:
        """Return a digest of the files it reads, "" if it reads none."""
        return ""

    def until(self, client: int, seed: int, t: int, at: float) -> float | None:
        """Return until when a client stays that is available at second `at` in round `t`.

        None if it is not available then.
        """
        end = self.stays(client, seed, float(t) if self.by == ROUNDS else at)
        return inf if end is not None and self.by == ROUNDS else end

    @abstractmethod
    def stays(self, client: int, seed: int, at: float) -> float | None:
        """The same as `until`, with `at` in the unit `by`."""


@dataclass(frozen=True)
class _Schedule:
    """Sampled changes of one client between available and unavailable."""

    starts_available: bool
    """True if the client is available at time 0."""
    changes: list[float]
    """Times of the changes."""

    def available(self, changes: int) -> bool:
        """True if the client is available after this number of changes."""
        return self.starts_available == (changes % 2 == 0)


@dataclass(frozen=True, repr=False)
class OnOff(Availability):
    """Clients alternate between available and unavailable, with exponential durations.

    `on` and `off` are the mean durations. At the start, as at any other time, a client is available
    with probability on / (on + off).
    """

    on: float
    off: float
    _schedules: dict[tuple[int, int], _Schedule] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        number("on_off", "on", self.on, low=0, open_low=True, high=LONGEST_WAIT)
        number("on_off", "off", self.off, low=0, high=LONGEST_WAIT)
        choice("on_off", "by", self.by, UNITS)

    def stays(self, client: int, seed: int, at: float) -> float | None:
        """Return the time of the next change if the client is available, else None."""
        if self.off == 0:
            return inf
        schedule = self._schedules.get((seed, client))
        if schedule is None:
            starts_available = numpy_generator(seed, "clock/there", client).random() < self.on / (
                self.on + self.off
            )
            schedule = self._schedules[seed, client] = _Schedule(bool(starts_available), [])
        while not schedule.changes or schedule.changes[-1] <= at:
            self._extend(
                schedule, numpy_generator(seed, "clock/changes", client, len(schedule.changes))
            )
        place = bisect_right(schedule.changes, at)
        return schedule.changes[place] if schedule.available(place) else None

    def _extend(self, schedule: _Schedule, rng: np.random.Generator) -> None:
        """Sample the next changes of a client."""
        for sample in rng.exponential(size=BLOCK).tolist():
            duration = sample * (self.on if schedule.available(len(schedule.changes)) else self.off)
            schedule.changes.append((schedule.changes[-1] if schedule.changes else 0.0) + duration)


@dataclass(frozen=True, repr=False)
class Trace(Availability):
    """Available time spans of each client, from a JSON file.

    The file has the form `{"0": [[0, 600], [900, 1200]], "1": ...}`. With `every`, the spans repeat
    after that time.

    path
        Path of the JSON file.
    every
        In the unit `by`; None: the spans do not repeat.
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
            client: _parse_spans(f"trace: {self.path}: client {shown(client)}", spans)
            for client, spans in entries.items()
        }

    def check(self, population: int) -> None:
        """Raise an error if the file has no entry for one of the clients."""
        refuse_missing("trace", self.path, self._spans, population)

    def digest(self) -> str:
        return digest_of("trace", self.path)

    def stays(self, client: int, seed: int, at: float) -> float | None:
        """Return the end of the span that contains `at`, or None.

        A span that ends at the end of a period continues in the next period if a span starts there.
        """
        spans, period_start = self._spans[str(client)], 0.0
        if self.every is not None:
            period_start, at = at - at % self.every, at % self.every
        for begin, end in spans:
            if begin <= at < end:
                if self.every is not None and end >= self.every:
                    next_end = next((stop for start, stop in spans if start == 0), 0.0)
                    return inf if next_end >= self.every else period_start + self.every + next_end
                return period_start + end
        return None


def _parse_spans(where: str, entry: object) -> list[tuple[float, float]]:
    last = 0.0
    spans = []
    if not isinstance(entry, list):
        raise DataError(
            f"{where} must have a list of spans, as in [[0, 600], [900, 1200]], "
            f"found {shown(entry)}."
        )
    for span in entry:
        valid = (
            isinstance(span, list)
            and len(span) == 2
            and all(is_number(x) and x <= LARGEST for x in span)
        )
        if not valid or not last <= span[0] < span[1]:
            raise DataError(
                f"{where}: spans must be pairs [start, end] in increasing order, from 0 on, "
                f"found {shown(span)}."
            )
        spans.append((float(span[0]), float(span[1])))
        last = spans[-1][1]
    return spans


on_off = register("availability", "on_off")(OnOff)
trace = register("availability", "trace")(Trace)
