"""How our number of a cell compares with the paper's.

*within the paper's spread*: the paper's whole schedule was run with all seeds, and our mean,
rounded as the paper prints, is in paper ± spread. If the paper prints no spread, one point of a
percentage or one per cent of any other number is used (`DEFAULT_SPREAD`), and marked. An X in the
paper agrees with a run that diverges.

A target that the paper does not reach ("-") agrees with runs of which none reaches it. A target
that only some seeds reach differs, and their number is printed. The rounds to
a target are known as soon as it is reached, if the target is.

*differs*: the whole schedule was run, and our mean is outside; or the run diverged where the paper
has a number.

*right order*: for runs that were cut or stretched, which cannot have the verdicts above. All cells
on the same data, kind of network and rounds that have reached the same stop are compared in pairs.
A pair counts if the paper's numbers differ by more than their two spreads together. The order is
right if in every counting pair with this cell our numbers differ as much, in the order of the
paper, and there is at least one such pair.

*not decided yet*: anything else. The stop has not been reached, there is nothing to compare with,
our numbers are too close to each other, or the order is another one so far (which is printed, and
may change in the missing rounds).

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
NO_BASELINE, NEAR, ANOTHER = (
    "nothing to compare it with",
    "too near others to tell",
    "another order",
)
DEFAULT_SPREAD = 1.0
"""Spread if a paper prints none: points of a percentage, per cent of any other number."""


@dataclass(frozen=True)
class Verdict:
    """One of the four verdicts, and the reason."""

    word: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.word} ({self.why})" if self.why else self.word


def verdicts(cells: Sequence[CellStatus]) -> list[Verdict]:
    return [verdict(one, [other for other in cells if other is not one]) for one in cells]


def verdict(one: CellStatus, others: Sequence[CellStatus]) -> Verdict:
    """Return the verdict of a cell, given the other cells of its table."""
    cell = one.entry.cell
    if cell.reported is None and not cell.diverges and not cell.unreached:
        return Verdict(NONE)
    if one.diverged and (one.entry.whole or one.reached):
        return (
            Verdict(WITHIN, "diverges in the paper too")
            if cell.diverges
            else Verdict(DIFFERS, "diverged")
        )
    if one.unreached and one.whole and one.reached:
        if not math.isnan(one.value):
            return Verdict(DIFFERS, f"reached by {one.reached_by} seeds")
        return (
            Verdict(WITHIN, "not reached in the paper either")
            if cell.unreached
            else Verdict(DIFFERS, "not reached")
        )
    if not one.reached or math.isnan(one.value):
        return Verdict(OPEN, DAMAGED if one.damaged else "")
    if cell.unreached:
        return Verdict(DIFFERS, "reached") if one.whole else Verdict(OPEN)
    order_text = order(one, others)
    if one.whole:
        return _verdict_of_whole(one, order_text)
    if order_text == ORDER:
        return Verdict(ORDER)
    return Verdict(
        OPEN, {NO_BASELINE: NO_BASELINE, NEAR: NEAR, ANOTHER: f"{ANOTHER} so far"}[order_text]
    )


def _verdict_of_whole(one: CellStatus, order_text: str) -> Verdict:
    cell = one.entry.cell
    if cell.reported is None:
        return Verdict(DIFFERS, "the paper's does not converge")
    gap = difference(one)
    assert gap is not None
    if abs(round(gap, 9)) <= spread_of(one.entry):
        default = f"±{DEFAULT_SPREAD:g}" if one.entry.shown.share else f"±{DEFAULT_SPREAD:g} %"
        return Verdict(WITHIN, f"{default} assumed, none is printed" if cell.spread is None else "")
    ending = "" if order_text == NO_BASELINE else f", {order_text}"
    return Verdict(DIFFERS, f"by {gap:+.{decimals(cell)}f}{ending}")


def order(one: CellStatus, others: Sequence[CellStatus]) -> str:
    """Return the combined result of all pairs that count."""
    results = {_pair(one, other) for other in others if _comparable(one, other)}
    return next((word for word in (ANOTHER, NEAR, ORDER) if word in results), NO_BASELINE)


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
    same = same and one.entry.shown == other.entry.shown
    same = same and (a.target, a.at, a.where) == (b.target, b.at, b.where)
    same = same and a.measure == b.measure and a.name.partition("/")[0] == b.name.partition("/")[0]
    stops = (one.entry.stop, one.entry.stretched) == (other.entry.stop, other.entry.stretched)
    return (
        same
        and stops
        and abs(a.reported - b.reported) > spread_of(one.entry) + spread_of(other.entry)
    )


def spread_of(entry: PlannedCell) -> float:
    """Return the printed spread, or the default."""
    cell = entry.cell
    if cell.spread is not None:
        return cell.spread
    return DEFAULT_SPREAD if entry.shown.share else DEFAULT_SPREAD / 100 * abs(cell.reported or 0.0)


def difference(one: CellStatus) -> float | None:
    """Return our number, rounded as the paper prints, minus the paper's; or None."""
    cell = one.entry.cell
    if cell.reported is None or math.isnan(one.value):
        return None
    return round(one.value, decimals(cell)) - cell.reported


def decimals(cell: TableCell) -> int:
    """Return how many digits after the point the paper prints.

    >>> decimals(TableCell(name="a/b", arguments={}, reported=59.9, spread=0.42))
    2
    """
    printed = [Decimal(repr(float(x))) for x in (cell.reported, cell.spread) if x is not None]
    return max((max(0, -int(number.as_tuple().exponent)) for number in printed), default=0)
