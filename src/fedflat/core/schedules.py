"""Numbers that may change from round to round. Hyperparameters take a float or a schedule.

at(0.1, t)                                   0.1 at(warmup(0.001, 0.15, 2000), t)             rises
for 2,000 rounds, then stays
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass

from fedflat.errors import SettingError, SpellingError, number
from fedflat.registry.specs import TextSpec, parse, register


class Schedule(TextSpec, ABC):
    """A function from the round number to a value."""

    @property
    def bounds(self) -> tuple[float, ...]:
        """Values that bound the schedule, to check ranges before the first round."""
        return ()

    @abstractmethod
    def __call__(self, round: int) -> float: ...


Scalar = float | Schedule


def at(value: Scalar, round: int) -> float:
    """The value in round ``round``.

    >>> at(0.5, 3), at(decay(1.0, 0.5), 3)
    (0.5, 0.125)
    """
    return value(round) if isinstance(value, Schedule) else value


def check_end(owner: str, things: Iterable[object], rounds: int) -> None:
    """Refuse schedules in fields of ``things`` that overflow before the last of ``rounds`` rounds.

    Objects that are not dataclasses have no settings and are skipped.
    """
    for thing in things:
        for field in fields(thing) if is_dataclass(thing) else ():
            value = getattr(thing, field.name)
            if isinstance(value, Schedule):
                number(owner, f"{field.name}={value} in round {rounds}", value(rounds - 1))


def scalar(
    owner: str,
    name: str,
    value: object,
    *,
    low: float = 0.0,
    open_low: bool = False,
    high: float = float("inf"),
) -> None:
    """Refuse a value that is neither a number in its range nor a schedule within that range."""
    for bound in value.bounds if isinstance(value, Schedule) else (value,):
        number(owner, name, bound, low=low, open_low=open_low, high=high)


def schedule_of(name: str, text: str) -> Schedule:
    """The schedule that a text names; ``name`` is the setting that was given the text."""
    try:
        found: Schedule = parse(text, "schedule")
    except SpellingError as error:
        raise SpellingError(f"{name} must be a number or a schedule: {error}") from None
    return found


@dataclass(frozen=True, repr=False)
class Decay(Schedule):
    """``value * rate^t``."""

    value: float
    rate: float

    def __post_init__(self) -> None:
        number("decay", "value", self.value)
        number("decay", "rate", self.rate, low=0, open_low=True)

    @property
    def bounds(self) -> tuple[float, ...]:
        return (self.value,)

    def __call__(self, round: int) -> float:
        try:
            return self.value * self.rate**round
        except OverflowError:
            return math.copysign(math.inf, self.value) if self.value else 0.0


@dataclass(frozen=True, repr=False)
class Warmup(Schedule):
    """A straight line from ``first`` in round 0 to ``last`` in round ``rounds``, then ``last``."""

    first: float
    last: float
    rounds: int

    def __post_init__(self) -> None:
        number("warmup", "first", self.first)
        number("warmup", "last", self.last)
        number("warmup", "rounds", self.rounds, low=0, whole=True)

    @property
    def bounds(self) -> tuple[float, ...]:
        return (self.first, self.last)

    def __call__(self, round: int) -> float:
        if round >= self.rounds:
            return self.last
        return self.first + (self.last - self.first) * round / self.rounds


@dataclass(frozen=True, repr=False)
class Cosine(Schedule):
    """A half cosine from ``first`` in round 0 to ``last`` in round ``rounds``, then ``last``."""

    first: float
    last: float
    rounds: int

    def __post_init__(self) -> None:
        number("cosine", "first", self.first)
        number("cosine", "last", self.last)
        number("cosine", "rounds", self.rounds, low=1, whole=True)

    @property
    def bounds(self) -> tuple[float, ...]:
        return (self.first, self.last)

    def __call__(self, round: int) -> float:
        share = min(round / self.rounds, 1.0)
        return self.last + (self.first - self.last) * (1 + math.cos(math.pi * share)) / 2


@dataclass(frozen=True, repr=False)
class Cyclic(Schedule):
    """Falls linearly to ``low`` in every cycle of ``cycle`` rounds; ``high`` if ``cycle`` is 1.

    >>> [round(cyclic(1e-2, 1e-4, 4)(t), 6) for t in range(5)]
    [0.007525, 0.00505, 0.002575, 0.0001, 0.007525]
    """

    high: float
    low: float
    cycle: int

    def __post_init__(self) -> None:
        number("cyclic", "high", self.high)
        number("cyclic", "low", self.low)
        number("cyclic", "cycle", self.cycle, low=1, whole=True)

    @property
    def bounds(self) -> tuple[float, ...]:
        return (self.high, self.low)

    def __call__(self, round: int) -> float:
        if self.cycle == 1:
            return self.high
        share = (round % self.cycle + 1) / self.cycle
        return (1 - share) * self.high + share * self.low


@dataclass(frozen=True, repr=False)
class Steps(Schedule):
    """``values[i]`` from round ``rounds[i]`` on; ``rounds`` increases from 0.

    >>> [steps([0, 2], [0.1, 0.01])(t) for t in range(4)]
    [0.1, 0.1, 0.01, 0.01]
    """

    rounds: tuple[int, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("rounds", "values"):
            entries = getattr(self, name)
            if not isinstance(entries, list | tuple):
                raise SettingError(
                    f"steps: {name} must be a list, as in steps([0, 9], [1, 0.1]), "
                    f"found {entries!r}."
                )
            object.__setattr__(self, name, tuple(entries))
            for entry in entries:
                number("steps", f"every entry of {name}", entry, whole=name == "rounds")
        rising = all(a < b for a, b in zip(self.rounds, self.rounds[1:], strict=False))
        if (
            not self.rounds
            or self.rounds[0] != 0
            or not rising
            or len(self.rounds) != len(self.values)
        ):
            raise SettingError(
                "steps: rounds must increase from 0 and have one value each, found "
                f"{list(self.rounds)} and {list(self.values)}. Write e.g. steps([0, 9], [1, 0.1])."
            )

    @property
    def bounds(self) -> tuple[float, ...]:
        return self.values

    def __call__(self, round: int) -> float:
        return next(
            v for r, v in reversed(list(zip(self.rounds, self.values, strict=True))) if round >= r
        )


@dataclass(frozen=True, repr=False)
class Poly(Schedule):
    """``value (1 - t / rounds)^power``, then 0.

    DeepLab and BiSeNet decay the learning rate like this in every step. The piece ``poly_rate()``
    does so within local training.

    >>> f"{poly(0.05, 10)(9):.8f}"
    '0.00629463'
    """

    value: float
    rounds: int
    power: float = 0.9

    def __post_init__(self) -> None:
        number("poly", "value", self.value)
        number("poly", "rounds", self.rounds, low=1, whole=True)
        number("poly", "power", self.power, low=0)

    @property
    def bounds(self) -> tuple[float, ...]:
        return (self.value, 0.0)

    def __call__(self, round: int) -> float:
        return self.value * (1 - round / self.rounds) ** self.power if round < self.rounds else 0.0


decay = register("schedule", "decay")(Decay)
warmup = register("schedule", "warmup")(Warmup)
cosine = register("schedule", "cosine")(Cosine)
cyclic = register("schedule", "cyclic")(Cyclic)
steps = register("schedule", "steps")(Steps)
poly = register("schedule", "poly")(Poly)
