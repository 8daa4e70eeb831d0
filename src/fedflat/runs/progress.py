"""Telling people how a run goes: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from fedflat.runs.experiment import Experiment
from fedflat.runs.study import Voice
from fedflat.runs.train import Tell, Tick

PAUSE = 2.0
"""Least seconds between two plain lines."""


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(42), duration(125), duration(7380)
    ('42s', '2m05s', '2h03m')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def sentence(tick: Tick) -> str:
    """Round, loss, accuracy, speed and time left."""
    parts = [f"round {tick.round}/{tick.rounds}", f"loss {tick.loss:.4f}"]
    if tick.row and "accuracy" in tick.row:
        parts.append(f"accuracy {100 * tick.row['accuracy']:.2f} %")
    left = f"{duration(tick.left)} left" if tick.round < tick.rounds else "done"
    return "  ".join([*parts, f"{tick.speed:,.0f} samples/s", left])


def title(exp: Experiment, place: int, total: int) -> str:
    """Which run this is."""
    return f"{f'[{place}/{total}] ' if total > 1 else ''}{exp.method}, seed {exp.seed}"


class Talker:
    """Tells everything on standard error; use as a context manager and hand ``voice`` to a run."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=16), TaskProgressColumn())
        self.bar = Progress(*columns, TextColumn("{task.fields[said]}"), console=self.console)
        self.live = self.console.is_terminal
        self.voice = Voice(self.announce, self.say, self.say)

    def __enter__(self) -> Talker:
        if self.live:
            self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.live:
            self.bar.stop()

    def say(self, text: str) -> None:
        """A line by itself."""
        self.console.print(text, markup=False, soft_wrap=True)

    def announce(self, exp: Experiment, place: int, total: int) -> Tell:
        """A run begins."""
        return self._live(title(exp, place, total)) if self.live else self._plain(title(exp, place, total))

    def _live(self, name: str) -> Tell:
        line = self.bar.add_task(name.replace("[", r"\["), said="")

        def tell(tick: Tick) -> None:
            self.bar.update(line, completed=tick.round, total=tick.rounds, said=sentence(tick))

        return tell

    def _plain(self, name: str) -> Tell:
        self.say(name)
        last = time.monotonic() - PAUSE

        def tell(tick: Tick) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= PAUSE or tick.round == tick.rounds:
                last = now
                self.say("  " + sentence(tick))

        return tell
