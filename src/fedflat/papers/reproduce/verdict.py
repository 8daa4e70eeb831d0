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
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile

from fedflat.papers.reproduce.cells import TableCell
from fedflat.papers.reproduce.plan import PlannedCell, TablePlan
from fedflat.papers.reproduce.status import CellStatus, cell_statuses
from fedflat.tasks.headline import Headline

WITHIN = "within the paper's spread"
ORDER = "right order"
DIFFERS = "differs"
OPEN = "not decided yet"
NONE = "no number to compare"
DAMAGED = "a run cannot be read"
NO_BASELINE = "nothing to compare it with"
NEAR = "too near others to tell"
ANOTHER = "another order"
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


@dataclass(frozen=True)
class TableLine:
    label: str
    """Name of the cell without the common prefix."""
    status: CellStatus
    verdict: Verdict

    @property
    def headline(self) -> Headline:
        return self.status.entry.shown

    @property
    def paper(self) -> str:
        return self.status.entry.cell.figure

    @property
    def ours(self) -> str:
        one = self.status
        if one.diverged:
            return "X"
        partly = "" if math.isnan(one.value) or not one.unreached else f" ({one.reached_by} seeds)"
        if one.entry.cell.measure == "rounds" and not math.isnan(one.value):
            spread = "" if math.isnan(one.spread) else f" ± {one.spread:.0f}"
            return f"{one.value:.0f}{spread}{partly}"
        return self.headline.format_displayed(one.value, one.spread) + partly

    @property
    def difference(self) -> float | None:
        """Our number minus the paper's, after the paper's whole schedule. Else None."""
        one = self.status
        return difference(one) if one.whole and one.reached and not one.diverged else None

    @property
    def evaluations(self) -> int:
        """Number of evaluations in our number, of the seed that has fewest."""
        return min(seed.evaluations for seed in self.status.seeds)


def lines(plan: TablePlan) -> list[TableLine]:
    statuses = cell_statuses(plan.entries, plan.folder)
    names = [one.entry.cell.name for one in statuses]
    start = len(common_prefix(names))
    return [
        TableLine(name[start:], one, verdict)
        for name, one, verdict in zip(names, statuses, verdicts(statuses), strict=True)
    ]


def common_prefix(names: list[str]) -> str:
    """Return the common prefix of all names, up to the end of a word, without the last word.

    For one cell, with or without averages, it is the paper.

    >>> common_prefix(["fedgloss/cifar10-cnn-fedavg", "fedgloss/cifar10-cnn-fedgloss"])
    'fedgloss/cifar10-cnn-'
    >>> common_prefix(["fedgloss/cifar10-cnn-fedavg-repo", "fedgloss/cifar10-cnn-fedavg-repo+wima"])
    'fedgloss/'
    """
    cells = sorted({name.partition("+")[0] for name in names})
    if len(cells) == 1:
        return cells[0][: cells[0].rfind("/") + 1]
    words = [re.findall(r"[^-/]*[-/]", name) for name in cells]
    alike = takewhile(lambda column: len(set(column)) == 1, zip(*words, strict=False))
    return "".join(column[0] for column in alike)
