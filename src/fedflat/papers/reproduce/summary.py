"""The table of a plan as it stands, line by line, for the screen and for files."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import takewhile

from fedflat.papers.reproduce.plan import TablePlan
from fedflat.papers.reproduce.status import CellStatus, cell_statuses
from fedflat.papers.reproduce.verdict import Verdict, difference, verdicts
from fedflat.tasks.headline import Headline


@dataclass(frozen=True)
class TableLine:
    label: str
    """Name of the cell without the common prefix."""
    status: CellStatus
    verdict: Verdict

    @property
    def headline(self) -> Headline:
        """The score that its number is."""
        return self.status.entry.shown

    @property
    def paper(self) -> str:
        """The paper's number."""
        return self.status.entry.cell.figure

    @property
    def ours(self) -> str:
        """Our current number."""
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
    """Return the lines of all cells."""
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
