"""Who is ahead, if the spread says so: the page's first sentences.

One method is ahead of another if the difference of their accuracies is more than chance would make of it:

* with two seeds or more of both: more than ``t * sqrt(s1^2 / n1 + s2^2 / n2)``, where s is the standard deviation over
  the n seeds and t the 97.5 % point of Student's distribution with Welch's degrees of freedom;
* with a single seed of either: more than ``2 * sqrt(e1^2 + e2^2)``, where e is the standard deviation over the
  evaluations of the last rounds: single evaluations of both would come in the same order;
* with a single evaluation of a single seed there is no spread, and nobody is ahead.

A method that is ahead of all others is the most accurate; else the best is within noise of those it is not ahead of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from fedflat.running.results import Result

LEVEL = 0.975
NAMED = 3
"""How many methods a sentence names."""


@dataclass(frozen=True)
class Standing:
    """The accuracy of a method, and what is known of its spread."""

    method: str
    seeds: tuple[float, ...]
    """The accuracy of each seed."""
    evaluations: tuple[tuple[float, ...], ...]
    """What each seed's is the mean of."""

    @classmethod
    def of(cls, method: str, results: Sequence[Result]) -> Standing:
        """The standing of the runs of one method."""
        finals = [result.final() for result in results]
        scores = [tuple(row["accuracy"] for row in result.last_rows if "accuracy" in row) for result in results]
        return cls(method, tuple(finals), tuple(scores))

    @property
    def accuracy(self) -> float:
        """The mean over seeds; NaN if one has none."""
        return mean(self.seeds) if self.seeds else math.nan

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; NaN if there is one only."""
        return stdev(self.seeds) if len(self.seeds) > 1 else math.nan

    @property
    def wobble(self) -> float:
        """The standard deviation over the evaluations of a seed, in the root mean square over seeds; NaN if unknown."""
        known = [stdev(values) for values in self.evaluations if len(values) > 1]
        return math.sqrt(mean(value * value for value in known)) if known else math.nan

    def ahead_of(self, other: Standing) -> bool:
        """Whether the difference is more than noise; not if that cannot be known."""
        return self.accuracy - other.accuracy > self._noise(other)

    def _noise(self, other: Standing) -> float:
        if min(len(self.seeds), len(other.seeds)) > 1:
            return _welch((self.spread, len(self.seeds)), (other.spread, len(other.seeds)))
        return 2 * math.hypot(self.wobble, other.wobble)  # NaN, and nobody ahead, if one is unknown


def _welch(*spreads: tuple[float, int]) -> float:
    """The least difference of two means that is not chance, from standard deviations and counts."""
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    parts = [spread * spread / count for spread, count in spreads]
    if not sum(parts):
        return 0.0
    freedom = sum(parts) ** 2 / sum(part * part / (count - 1) for part, (_, count) in zip(parts, spreads, strict=True))
    return float(stdtrit(freedom, LEVEL)) * math.sqrt(sum(parts))


def leader(standings: Sequence[Standing]) -> Standing | None:
    """The method that is ahead of all others; None if there is none, or only one."""
    ranked = _ranked(standings)
    return ranked[0] if len(ranked) > 1 and all(ranked[0].ahead_of(other) for other in ranked[1:]) else None


def lead(standings: Sequence[Standing]) -> str:
    """A sentence about the best method; empty if nothing was measured."""
    ranked = _ranked(standings)
    if not ranked:
        return ""
    best, others = ranked[0], ranked[1:]
    figure = f"{100 * best.accuracy:.2f}" + (f" ± {100 * best.spread:.2f}" if math.isfinite(best.spread) else "")
    if not others:
        return f"{best.method} reaches {figure} %."
    near = [other for other in others if not best.ahead_of(other)]
    if not near:
        return f"{best.method} is the most accurate with {figure} %."
    names = _listed([other.method for other in near])
    if all(math.isnan(best._noise(other)) for other in near):
        why = f"but one evaluation of one seed does not tell it from {names}"
    else:
        why = f"but within noise of {names}"
    return f"{best.method} has the highest accuracy, {figure} %, {why}."


def _ranked(standings: Sequence[Standing]) -> list[Standing]:
    return sorted((one for one in standings if math.isfinite(one.accuracy)), key=lambda one: -one.accuracy)


def _listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> _listed(["a"]), _listed(["a", "b"]), _listed(["a", "b", "c", "d", "e"])
    ('a', 'a and b', 'a, b, c and 2 others')
    """
    named = list(names) if len(names) <= NAMED + 1 else [*names[:NAMED], f"{len(names) - NAMED} others"]
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
