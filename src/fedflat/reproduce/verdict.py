"""What may be said of a cell.

*within the paper's spread*: the paper's whole schedule was run with all seeds asked for, and our mean, rounded as the
paper prints, lies in paper ± spread. Where the paper prints no spread, one point is taken (`UNSAID`) and marked. An X
in the paper agrees with a run that diverges.

*differs*: the whole schedule was run, and our mean lies outside; or the run diverged where the paper has a number.

*right order*: for runs that were cut or stretched, of which neither can be said. All cells on the same data, model and
rounds that have come to the same stop are compared in pairs; a pair counts if the paper's numbers are further apart
than their two spreads together. Right: every pair with this cell that counts has the order of the paper, and there is
one at least.

*not decided yet*: anything else. The stop has not been reached, there is nobody to compare with, or the order is
another one so far (which is said, and may change in the rounds that are missing).

A run of the whole schedule that differs also says whether the order is right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedflat.reproduce.cells import Cell
from fedflat.reproduce.standing import Standing

WITHIN, ORDER, DIFFERS, OPEN = "within the paper's spread", "right order", "differs", "not decided yet"
NONE = "no number to compare"
UNSAID = 1.0
"""The spread, in points, where a paper prints none."""


@dataclass(frozen=True)
class Verdict:
    """One of the four, and why."""

    word: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.word} ({self.why})" if self.why else self.word


def verdicts(all_of_them: Sequence[Standing]) -> list[Verdict]:
    """One for each."""
    return [verdict(one, [other for other in all_of_them if other is not one]) for one in all_of_them]


def verdict(one: Standing, others: Sequence[Standing]) -> Verdict:
    """What may be said of a cell beside the others of its table."""
    cell = one.entry.cell
    if cell.reported is None and not cell.diverges:
        return Verdict(NONE)
    if one.diverged and (one.entry.whole or one.reached):
        return Verdict(WITHIN, "diverges in the paper too") if cell.diverges else Verdict(DIFFERS, "diverged")
    if not one.reached or math.isnan(one.value):
        return Verdict(OPEN)
    right = order(one, others)
    if one.entry.whole:
        return _of_the_whole(one, right)
    if right is None:
        return Verdict(OPEN, "nothing to compare it with")
    return Verdict(ORDER) if right else Verdict(OPEN, "another order so far")


def _of_the_whole(one: Standing, right: bool | None) -> Verdict:
    cell = one.entry.cell
    if cell.reported is None:
        return Verdict(DIFFERS, "the paper's does not converge")
    apart = difference(one)
    assert apart is not None
    if abs(round(apart, 9)) <= spread_of(cell):
        return Verdict(WITHIN, f"±{UNSAID:g} taken, none is printed" if cell.spread is None else "")
    ending = "" if right is None else ", right order" if right else ", another order"
    return Verdict(DIFFERS, f"by {apart:+.{decimals(cell)}f}{ending}")


def order(one: Standing, others: Sequence[Standing]) -> bool | None:
    """Whether the pairs that count have the paper's order; None if there is no such pair."""
    pairs = [other for other in others if _comparable(one, other)]
    mine = one.entry.cell.reported
    agree = [
        (one.value > other.value) == (mine > other.entry.cell.reported)  # type: ignore[operator]
        for other in pairs
    ]
    return all(agree) if agree else None


def _comparable(one: Standing, other: Standing) -> bool:
    a, b = one.entry.cell, other.entry.cell
    if a.reported is None or b.reported is None or not other.reached or other.diverged or math.isnan(other.value):
        return False
    same = all(a.arguments.get(name) == b.arguments.get(name) for name in ("on", "model", "rounds"))
    same = same and a.measure == b.measure and a.name.partition("/")[0] == b.name.partition("/")[0]
    stops = (one.entry.stop, one.entry.stretched) == (other.entry.stop, other.entry.stretched)
    return same and stops and abs(a.reported - b.reported) > spread_of(a) + spread_of(b)


def spread_of(cell: Cell) -> float:
    """The spread printed, or the one taken in its place."""
    return UNSAID if cell.spread is None else cell.spread


def difference(one: Standing) -> float | None:
    """Our number, rounded as the paper prints, less the paper's; None if one of them is missing."""
    cell = one.entry.cell
    if cell.reported is None or math.isnan(one.value):
        return None
    return round(one.value, decimals(cell)) - cell.reported


def decimals(cell: Cell) -> int:
    """How many digits after the point the paper prints.

    >>> decimals(Cell(name="a/b", arguments={}, reported=59.9, spread=0.42))
    2
    """
    printed = [repr(float(x)) for x in (cell.reported, cell.spread) if x is not None]
    return max(len(text.partition(".")[2]) for text in printed)
