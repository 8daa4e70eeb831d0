"""What may be said of a cell.

*within the paper's spread*: the paper's whole schedule was run with all seeds asked for, and our mean, rounded as the
paper prints, lies in paper ± spread. Where the paper prints no spread, one point of a percentage or a hundredth of any
other number is taken (`UNSAID`) and marked. An X in the paper agrees with a run that diverges.

*differs*: the whole schedule was run, and our mean lies outside; or the run diverged where the paper has a number.

*right order*: for runs that were cut or stretched, of which neither can be said. All cells on the same data, kind of
network and rounds that have come to the same stop are compared in pairs; a pair counts if the paper's numbers are
further apart than their two spreads together. Right: in every pair with this cell that counts our numbers are as far
apart too, in the order of the paper, and there is one such pair at least.

*not decided yet*: anything else. The stop has not been reached, there is nobody to compare with, our numbers are too
near each other, or the order is another one so far (which is said, and may change in the rounds that are missing).

A run of the whole schedule that differs also says whether the order is right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from fedflat.papers.reproduce.cells import TableCell
from fedflat.papers.reproduce.plan import PlannedCell
from fedflat.papers.reproduce.status import CellStatus

WITHIN, ORDER, DIFFERS, OPEN = (
    "within the paper's spread",
    "right order",
    "differs",
    "not decided yet",
)
NONE = "no number to compare"
DAMAGED = "a run cannot be read"
NOBODY, NEAR, ANOTHER = "nothing to compare it with", "too near others to tell", "another order"
UNSAID = 1.0
"""The spread where a paper prints none: points of a percentage, per cent of any other number."""


@dataclass(frozen=True)
class Verdict:
    """One of the four, and why."""

    word: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.word} ({self.why})" if self.why else self.word


def verdicts(all_of_them: Sequence[CellStatus]) -> list[Verdict]:
    """One for each."""
    return [
        verdict(one, [other for other in all_of_them if other is not one]) for one in all_of_them
    ]


def verdict(one: CellStatus, others: Sequence[CellStatus]) -> Verdict:
    """What may be said of a cell beside the others of its table."""
    cell = one.entry.cell
    if cell.reported is None and not cell.diverges:
        return Verdict(NONE)
    if one.diverged and (one.entry.whole or one.reached):
        return (
            Verdict(WITHIN, "diverges in the paper too")
            if cell.diverges
            else Verdict(DIFFERS, "diverged")
        )
    if not one.reached or math.isnan(one.value):
        return Verdict(OPEN, DAMAGED if one.damaged else "")
    said = order(one, others)
    if one.entry.whole:
        return _of_the_whole(one, said)
    if said == ORDER:
        return Verdict(ORDER)
    return Verdict(OPEN, {NOBODY: NOBODY, NEAR: NEAR, ANOTHER: f"{ANOTHER} so far"}[said])


def _of_the_whole(one: CellStatus, said: str) -> Verdict:
    cell = one.entry.cell
    if cell.reported is None:
        return Verdict(DIFFERS, "the paper's does not converge")
    apart = difference(one)
    assert apart is not None
    if abs(round(apart, 9)) <= spread_of(one.entry):
        unsaid = f"±{UNSAID:g}" if one.entry.headline.share else f"±{UNSAID:g} %"
        return Verdict(WITHIN, f"{unsaid} taken, none is printed" if cell.spread is None else "")
    ending = "" if said == NOBODY else f", {said}"
    return Verdict(DIFFERS, f"by {apart:+.{decimals(cell)}f}{ending}")


def order(one: CellStatus, others: Sequence[CellStatus]) -> str:
    """What the pairs that count say together."""
    said = {_pair(one, other) for other in others if _comparable(one, other)}
    return next((word for word in (ANOTHER, NEAR, ORDER) if word in said), NOBODY)


def _pair(one: CellStatus, other: CellStatus) -> str:
    a, b = one.entry.cell, other.entry.cell
    assert a.reported is not None
    assert b.reported is not None
    ours = one.value - other.value
    if abs(ours) <= spread_of(one.entry) + spread_of(other.entry):
        return NEAR
    return ORDER if (ours > 0) == (a.reported > b.reported) else ANOTHER


def _comparable(one: CellStatus, other: CellStatus) -> bool:
    a, b = one.entry.cell, other.entry.cell
    if (
        a.reported is None
        or b.reported is None
        or not other.reached
        or other.diverged
        or math.isnan(other.value)
    ):
        return False
    same = (
        all(a.arguments.get(name) == b.arguments.get(name) for name in ("on", "rounds"))
        and a.network == b.network
    )
    same = same and one.entry.headline == other.entry.headline
    same = same and a.measure == b.measure and a.name.partition("/")[0] == b.name.partition("/")[0]
    stops = (one.entry.stop, one.entry.stretched) == (other.entry.stop, other.entry.stretched)
    return (
        same
        and stops
        and abs(a.reported - b.reported) > spread_of(one.entry) + spread_of(other.entry)
    )


def spread_of(entry: PlannedCell) -> float:
    """The spread printed, or the one taken in its place."""
    cell = entry.cell
    if cell.spread is not None:
        return cell.spread
    return UNSAID if entry.headline.share else UNSAID / 100 * abs(cell.reported or 0.0)


def difference(one: CellStatus) -> float | None:
    """Our number, rounded as the paper prints, less the paper's; None if one of them is missing."""
    cell = one.entry.cell
    if cell.reported is None or math.isnan(one.value):
        return None
    return round(one.value, decimals(cell)) - cell.reported


def decimals(cell: TableCell) -> int:
    """How many digits after the point the paper prints.

    >>> decimals(TableCell(name="a/b", arguments={}, reported=59.9, spread=0.42))
    2
    """
    printed = [Decimal(repr(float(x))) for x in (cell.reported, cell.spread) if x is not None]
    return max(max(0, -int(number.as_tuple().exponent)) for number in printed)
