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
from fedflat.papers.reproduce.plan import TablePlan
from fedflat.papers.reproduce.scheduler import RunningJob, RunScheduler
from fedflat.papers.reproduce.verdict import (
    DIFFERS,
    NONE,
    ORDER,
    WITHIN,
    TableLine,
    common_prefix,
    lines,
)
from fedflat.text_table import duration

PRINT_INTERVAL = 60.0
"""Seconds between two printed lines of a run, without a terminal."""
REFRESH_INTERVAL = 1.0
"""Seconds between two reads of the run folders."""
COLOURS = {WITHIN: "green", ORDER: "green", DIFFERS: "red", NONE: "dim"}
NARROW = 80


class LiveTable:
    """Shows the progress of `RunScheduler.work`."""

    def __init__(self, several: RunScheduler[TablePlan], console: Console) -> None:
        self.scheduler, self.console = several, console
        self.live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._shown = -math.inf
        self._last_printed: dict[str, float] = {}
        self._names: set[str] = set()

    def __enter__(self) -> LiveTable:
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.live:
            self.live.update(self.render(), refresh=True)
            self.live.stop()

    def look(self) -> None:
        """Show what has changed."""
        if not self.live:
            self._print_changes()
        elif time.monotonic() - self._shown >= REFRESH_INTERVAL:
            self.live.update(self.render(), refresh=True)
            self._shown = time.monotonic()

    def render(self) -> Group:
        """Return the current table and the running jobs."""
        plan = self.scheduler.plan
        progress = "  ".join(_progress_text(job) for job in list(self.scheduler.running.values()))
        head = common_prefix([entry.cell.name for entry in plan.entries])
        title = _text(
            f"{plan.title}  {head}*" if len(plan.entries) > 1 else plan.title, style="bold"
        )
        source = _text(f"numbers to compare with: {plan.source}", style="dim")
        return Group(
            title,
            source,
            grid(lines(plan), self.scheduler.running, self.console.width),
            _text(progress, style="dim"),
        )

    def _print_changes(self) -> None:
        """Print a line for each run when it starts, regularly, and when it ends."""
        jobs = self.scheduler.running
        for name in self._names - set(jobs):
            self._print(f"{name}: {self._end_text(name)}")
        for name, one in jobs.items():
            if name not in self._names:
                self._print(f"{name}: starts")
                self._last_printed[name] = time.monotonic()
            elif time.monotonic() - self._last_printed[name] >= PRINT_INTERVAL and (
                one.round or one.doing
            ):
                self._print(_progress_text(one))
                self._last_printed[name] = time.monotonic()
        self._names = set(jobs)

    def _print(self, sentence: str) -> None:
        self.console.print(printable(sentence), markup=False, soft_wrap=True)

    def _end_text(self, name: str) -> str:
        if name in self.scheduler.failed:
            return f"failed: {self.scheduler.failed[name]}"
        scores = [
            f"{line.label} {line.headline.format_displayed(seed.value)} (paper {line.paper})"
            for line in lines(self.scheduler.plan)
            for seed in line.status.seeds
            if seed.folder == name
        ]
        return f"reached {', '.join(scores)}"


def _progress_text(running: RunningJob) -> str:
    if running.doing:
        return f"{running.job.folder}: {running.doing}"
    until = "" if math.isnan(running.left) else f", {duration(running.left)} left"
    return (
        f"{running.job.folder}: round {running.round:,}{until}"
        if running.round
        else f"{running.job.folder}: starting"
    )


def grid(shown: Sequence[TableLine], running: dict[str, RunningJob], width: int) -> Table:
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
            _text(_rounds(line, running)),
        ]
        cells += [_text(_left(line, running))] if width >= NARROW else []
        table.add_row(*cells, _text(str(line.verdict), style=COLOURS.get(line.verdict.word, "")))
    return table


def _text(content: str, style: str = "") -> Text:
    return Text(printable(content), style=style)


def _rounds(line: TableLine, running: dict[str, RunningJob]) -> str:
    """Return the share of the paper's rounds that is done."""
    entry, seeds = line.status.entry, line.status.seeds
    live = [
        max(seed.round, running[seed.folder].round if seed.folder in running else 0)
        for seed in seeds
    ]
    whole = entry.stop if entry.stretched else entry.cell.rounds
    return f"{100 * sum(min(done, entry.stop) for done in live) / (whole * len(seeds)):.0f} %"


def _left(line: TableLine, running: dict[str, RunningJob]) -> str:
    if line.status.reached:
        return "-" if line.status.entry.whole else "cut" if not line.status.entry.stretched else "-"
    times = [running[seed.folder].left for seed in line.status.seeds if seed.folder in running]
    known = [left for left in times if not math.isnan(left)]
    if line.status.damaged and not times:
        return "damaged"
    return duration(max(known)) if known else "starts" if times else "waits"
