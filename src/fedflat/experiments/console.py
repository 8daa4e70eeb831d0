"""Print the progress of runs: one live line on a terminal, the notebook's own display in a
notebook, and a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import wrap

from rich.console import Console
from rich.live import Live
from rich.text import Text

from fedflat.errors import printable, printable_lines
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.notebook import NotebookReporter, in_notebook
from fedflat.experiments.output_streams import dropping
from fedflat.experiments.progress import OnProgress, Progress
from fedflat.experiments.progress_texts import RunLabel, fitted, sentence
from fedflat.experiments.study import Reporter

PAUSE = 2.0
"""Least seconds between two plain lines; in a long run a tenth of the time since its beginning."""
FREE = 3
"""Columns left free at the end of a live line, so that the ^C a terminal writes there does not
begin a new one."""


@contextmanager
def reporter_for(reporter: Reporter | None = None, *, quiet: bool = False) -> Iterator[Reporter]:
    """The given reporter; else that of a `ConsoleReporter` or, in a notebook, of a
    `NotebookReporter`. If ``quiet``, one that prints only messages that must be seen."""
    if reporter is not None:
        yield reporter
    elif quiet:
        stream = None if sys.stderr is None else dropping(sys.stderr)
        yield Reporter(
            print_line=lambda text: print(f"fedflat: {printable_lines(text)}", file=stream)
        )
    else:
        with NotebookReporter() if in_notebook() else ConsoleReporter() as console:
            yield console.reporter


class ConsoleReporter:
    """Prints progress on standard error; use as a context manager and pass ``reporter`` to a
    run."""

    def __init__(self, console: Console | None = None) -> None:
        stream = None if sys.stderr is None else dropping(sys.stderr)
        self.console = console or Console(
            file=stream, stderr=True, highlight=False, force_jupyter=False
        )
        self.last: tuple[Progress, RunLabel] | None = None
        self.live = self.console.is_terminal and not self.console.is_dumb_terminal
        self.line = Live(
            console=self.console, get_renderable=self._now, transient=True, refresh_per_second=8
        )
        self.reporter = Reporter(self.announce, self.print_line, self.print_line)

    def __enter__(self) -> ConsoleReporter:
        if self.live:
            self.line.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Keep the last progress line on the screen, also after an error."""
        if self.live:
            self._keep()
            self.line.stop()

    def print_line(self, text: str) -> None:
        """Print lines of text; on a terminal they are broken between words, and the rest is
        indented."""
        width = max(self.console.width, 20) if self.live else sys.maxsize
        for line in printable_lines(text).split("\n"):
            inner = " " * (len(line) - len(line.lstrip()) + 4)
            broken = wrap(
                line, width, subsequent_indent=inner, break_long_words=False, break_on_hyphens=False
            )
            self.console.print("\n".join(broken), markup=False, soft_wrap=True)

    def announce(self, exp: Experiment, place: int, total: int) -> OnProgress:
        """A run begins."""
        which = RunLabel(repr(exp.method), exp.seed, place, total, exp.headline)
        return self._lively(which, exp.rounds) if self.live else self._plainly(which)

    def _now(self) -> Text:
        """The live line, as wide as the terminal is at the moment."""
        text = fitted(*self.last, self.console.width - FREE) if self.last else ""
        return Text(printable(text), no_wrap=True, overflow="crop")

    def _keep(self) -> None:
        """Make the live line one that stays, and begin a new one."""
        last, self.last = self._now(), None
        self.line.refresh()
        if last:
            self.console.print(last)

    def _lively(self, which: RunLabel, rounds: int) -> OnProgress:
        self._keep()  # of a run that ended before its last round
        self.last = Progress(0, rounds), which

        def show(progress: Progress) -> None:
            self.last = progress, which
            if progress.round == progress.rounds:
                self._keep()

        return show

    def _plainly(self, which: RunLabel) -> OnProgress:
        self.print_line(which.title)
        begun = due = time.monotonic()

        def show(progress: Progress) -> None:
            nonlocal due
            now = time.monotonic()
            if now >= due or progress.round == progress.rounds:
                due = now + max(PAUSE, (now - begun) / 10)
                self.print_line(f"  {sentence(progress, which.headline)}")

        return show
