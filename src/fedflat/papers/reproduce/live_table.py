"""The table while it comes about: live on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fedflat.errors import printable
from fedflat.experiments.console import duration
from fedflat.papers.reproduce.scheduler import RunningJob, RunScheduler
from fedflat.papers.reproduce.summary import TableLine, common, lines
from fedflat.papers.reproduce.verdict import DIFFERS, NONE, ORDER, WITHIN

PLAIN = 60.0
"""Seconds between two plain lines of a run."""
LIVE = 1.0
"""Seconds between two looks at the run folders."""
COLOURS = {WITHIN: "green", ORDER: "green", DIFFERS: "red", NONE: "dim"}
NARROW = 80


class LiveTable:
    """Whom `RunScheduler.work` shows itself to."""

    def __init__(self, several: RunScheduler, console: Console) -> None:
        self.several, self.console = several, console
        self.live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._shown = -math.inf
        self._told: dict[str, float] = {}
        self._names: set[str] = set()

    def __enter__(self) -> LiveTable:
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.live:
            self.live.update(self.now(), refresh=True)
            self.live.stop()

    def look(self) -> None:
        """Show what is new."""
        if not self.live:
            self._tell()
        elif time.monotonic() - self._shown >= LIVE:
            self.live.update(self.now(), refresh=True)
            self._shown = time.monotonic()

    def now(self) -> Group:
        """The table as it stands, and what goes on."""
        plan = self.several.plan
        foot = "  ".join(_foot(going) for going in list(self.several.going.values()))
        head = common([entry.cell.name for entry in plan.entries])
        title = _text(
            f"{plan.title}  {head}*" if len(plan.entries) > 1 else plan.title, style="bold"
        )
        source = _text(f"numbers to compare with: {plan.source}", style="dim")
        return Group(
            title,
            source,
            grid(lines(plan), self.several.going, self.console.width),
            _text(foot, style="dim"),
        )

    def _tell(self) -> None:
        """A plain line for each run that begins, now and then, and when it ends."""
        going = self.several.going
        for name in self._names - set(going):
            self._say(f"{name}: {self._reached(name)}")
        for name, one in going.items():
            if name not in self._names:
                self._say(f"{name}: begins")
                self._told[name] = time.monotonic()
            elif time.monotonic() - self._told[name] >= PLAIN and one.round:
                self._say(_foot(one))
                self._told[name] = time.monotonic()
        self._names = set(going)

    def _say(self, sentence: str) -> None:
        self.console.print(printable(sentence), markup=False, soft_wrap=True)

    def _reached(self, name: str) -> str:
        if name in self.several.failed:
            return f"failed: {self.several.failed[name]}"
        said = [
            f"{line.label} {line.headline.seen(seed.value)} (paper {line.paper})"
            for line in lines(self.several.plan)
            for seed in line.standing.seeds
            if seed.folder == name
        ]
        return f"stands at {', '.join(said)}"


def _foot(going: RunningJob) -> str:
    until = "" if math.isnan(going.left) else f", {duration(going.left)} left"
    return (
        f"{going.job.folder}: round {going.round:,}{until}"
        if going.round
        else f"{going.job.folder}: starting"
    )


def grid(shown: Sequence[TableLine], going: dict[str, RunningJob], width: int) -> Table:
    """The table for people, as wide as the terminal."""
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2 if width >= NARROW else 1, 0, 0),
        header_style="bold",
    )
    table.add_column("cell", overflow="fold", ratio=None)
    for head in ("paper", "ours"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("rounds", justify="right", no_wrap=True)
    if width >= NARROW:
        table.add_column("left", justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for line in shown:
        cells = [
            _text(line.label),
            _text(line.paper),
            _text(line.ours),
            _text(_rounds(line, going)),
        ]
        cells += [_text(_left(line, going))] if width >= NARROW else []
        table.add_row(*cells, _text(str(line.verdict), style=COLOURS.get(line.verdict.word, "")))
    return table


def _text(content: str, style: str = "") -> Text:
    return Text(printable(content), style=style)


def _rounds(line: TableLine, going: dict[str, RunningJob]) -> str:
    """The share of the paper's rounds that is done."""
    entry, seeds = line.standing.entry, line.standing.seeds
    live = [
        max(seed.round, going[seed.folder].round if seed.folder in going else 0) for seed in seeds
    ]
    whole = entry.stop if entry.stretched else entry.cell.rounds
    return f"{100 * sum(min(done, entry.stop) for done in live) / (whole * len(seeds)):.0f} %"


def _left(line: TableLine, going: dict[str, RunningJob]) -> str:
    if line.standing.reached:
        return (
            "-"
            if line.standing.entry.whole
            else "cut"
            if not line.standing.entry.stretched
            else "-"
        )
    times = [going[seed.folder].left for seed in line.standing.seeds if seed.folder in going]
    known = [left for left in times if not math.isnan(left)]
    if line.standing.damaged and not times:
        return "damaged"
    return duration(max(known)) if known else "starts" if times else "waits"
