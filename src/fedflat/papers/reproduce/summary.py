"""The table of a plan as it stands, line by line, for the screen and for files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile

from fedflat.papers.reproduce.plan import TablePlan
from fedflat.papers.reproduce.status import CellStatus, cell_status
from fedflat.papers.reproduce.verdict import Verdict, difference, verdicts
from fedflat.tasks.headline import Headline


@dataclass(frozen=True)
class TableLine:
    """One cell."""

    label: str
    """Its name, without what all names have in common."""
    standing: CellStatus
    verdict: Verdict

    @property
    def headline(self) -> Headline:
        """What it is judged by."""
        return self.standing.entry.headline

    @property
    def paper(self) -> str:
        """The paper's number."""
        return self.standing.entry.cell.figure

    @property
    def ours(self) -> str:
        """Our number so far."""
        one = self.standing
        if one.diverged:
            return "X"
        return self.headline.seen(one.value, one.spread)

    @property
    def difference(self) -> float | None:
        """Ours less the paper's, once the paper's whole schedule is run."""
        one = self.standing
        return difference(one) if one.entry.whole and one.reached and not one.diverged else None

    @property
    def evaluations(self) -> int:
        """Over how many evaluations our number is the mean, of the seed that has fewest."""
        return min(seed.evaluations for seed in self.standing.seeds)


def lines(plan: TablePlan) -> list[TableLine]:
    """All cells as they stand."""
    found = [cell_status(entry, plan.folder) for entry in plan.entries]
    names = [one.entry.cell.name for one in found]
    start = len(common(names))
    return [
        TableLine(name[start:], one, said)
        for name, one, said in zip(names, found, verdicts(found), strict=True)
    ]


def common(names: list[str]) -> str:
    """What all names begin with, up to the end of a word, and leaving something of each; of one
    cell, and what is shown beside it, the paper.

    >>> common(["fedgloss/cifar10-cnn-fedavg", "fedgloss/cifar10-cnn-fedgloss"])
    'fedgloss/cifar10-cnn-'
    >>> common(["fedgloss/cifar10-cnn-fedavg-repo", "fedgloss/cifar10-cnn-fedavg-repo+wima"])
    'fedgloss/'
    """
    cells = sorted({name.partition("+")[0] for name in names})
    if len(cells) == 1:
        return cells[0][: cells[0].rfind("/") + 1]
    words = [re.findall(r"[^-/]*[-/]", name) for name in cells]
    alike = takewhile(lambda column: len(set(column)) == 1, zip(*words, strict=False))
    return "".join(column[0] for column in alike)
