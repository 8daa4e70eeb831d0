"""Growth of the number of groups with the rounds (FedSeq2Par), from sequential to parallel.

    linear        b floor(a (t - 1) + 1)
    logarithmic   b floor(a ln t + 1)
    exponential   b floor((1 + a)^(t - 1))         in round t = 1, 2, ...

There are never more groups than clients. The inner floors are those of the authors' code; the
printed equations lost them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import exp, floor, log, log1p

from fedflat.errors import number
from fedflat.registry.specs import TextSpec, register

ROUNDING = 1e-9
"""0.29 * 100 + 1 is 30, but slightly less in floating point."""


@dataclass(frozen=True, repr=False)
class Growth(TextSpec, ABC):
    """Starts with ``b`` groups in the first round. A larger ``a`` grows faster."""

    a: float
    b: int = 5

    def __post_init__(self) -> None:
        owner = repr(self).partition("(")[0]
        number(owner, "a", self.a, low=0, high=1e6)
        number(owner, "b", self.b, low=1, whole=True)

    def groups(self, round: int, clients: int) -> int:
        """Return the number of groups in ``round`` (0 is the first, t = 1), at most ``clients``."""
        return min(clients, self.b * floor(min(self.factor(round + 1), clients) + ROUNDING))

    @abstractmethod
    def factor(self, t: int) -> float:
        """Return the factor of ``b``, before rounding down."""


@dataclass(frozen=True, repr=False)
class Linear(Growth):
    """Grows by the same number after every few rounds.

    >>> [linear(0.5).groups(t - 1, 500) for t in (1, 4, 9)]
    [5, 10, 25]
    """

    def factor(self, t: int) -> float:
        return self.a * (t - 1) + 1


@dataclass(frozen=True, repr=False)
class Logarithmic(Growth):
    """Grows fast at first, then ever more slowly.

    >>> [logarithmic(0.5).groups(t - 1, 500) for t in (1, 4, 9)]
    [5, 5, 10]
    """

    def factor(self, t: int) -> float:
        return self.a * log(t) + 1


@dataclass(frozen=True, repr=False)
class Exponential(Growth):
    """Grows slowly at first, then ever faster.

    >>> [exponential(0.5).groups(t - 1, 500) for t in (1, 4, 9)]
    [5, 15, 125]
    """

    def factor(self, t: int) -> float:
        return exp(min(log1p(self.a) * (t - 1), 700))


linear = register("growth", "linear")(Linear)
logarithmic = register("growth", "logarithmic")(Logarithmic)
exponential = register("growth", "exponential")(Exponential)
