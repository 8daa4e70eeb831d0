"""Progress of runs: one live line on a terminal, a table that the notebook's own display updates in a
notebook, and a plain line now and then elsewhere.

The notebook's file keeps the last state of the table, as HTML and as plain text. It holds no escape
codes.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from importlib import import_module
from textwrap import wrap
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from fedflat.errors import printable, printable_lines
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.output_streams import dropping
from fedflat.experiments.progress import OnProgress, Progress
from fedflat.experiments.results.scenario import without_arguments
from fedflat.experiments.study import Reporter
from fedflat.tasks.headline import ACCURACY, Headline
from fedflat.text_table import duration


@dataclass(frozen=True)
class RunLabel:
    method: str
    seed: int
    place: int = 1
    total: int = 1
    headline: Headline = ACCURACY

    @property
    def title(self) -> str:
        return f"{f'[{self.place}/{self.total}] ' if self.total > 1 else ''}{self.method}, seed {self.seed}"

    def names(self) -> Iterator[str]:
        """The method, shorter and shorter: without arguments, then its first piece only.

        >>> list(RunLabel("fedasam(rho=warmup(0.1, 0.5, 9)) + swa()", 0).names())[1:]
        ['fedasam + swa, seed 0', 'fedasam + swa', 'fedasam + ...']
        """
        bare = re.sub(r"\s+", " ", without_arguments(self.method))
        first, plus, _ = bare.partition(" + ")
        yield f"{self.method}, seed {self.seed}"
        yield f"{bare}, seed {self.seed}"
        yield bare
        yield f"{first} + ..." if plus else bare


@dataclass(frozen=True)
class ProgressParts:
    """The parts of a progress line, the most important first; empty where there is nothing."""

    round: str
    score: tuple[str, str, str]
    """The last test score: with its round; shorter; without the name of the score."""
    loss: str = ""
    left: tuple[str, str] = ("", "")
    """The time left of the run and of the study; the more important of the two."""
    speed: str = ""

    @classmethod
    def of(cls, progress: Progress, headline: Headline) -> ProgressParts:
        """A run that has not begun has a number of rounds only."""
        if progress.described is not None:
            return cls(
                "round 0: {:,} of {:,} clients described".format(*progress.described), ("", "", "")
            )
        round = f"{progress.phase} round {progress.round}/{progress.rounds}".lstrip()
        if not progress.round:
            return cls(round, _score(progress, headline))
        speed = f"{progress.speed:,.0f} samples/s"
        return cls(
            round,
            _score(progress, headline),
            f"train loss {_short(progress.loss)}",
            _left(progress),
            speed,
        )


def _score(progress: Progress, headline: Headline) -> tuple[str, str, str]:
    """The last test score and the round it was computed in; a short form leaves the current round
    out.

    >>> _score(Progress(17, 40, row={"round": 15, "accuracy": 0.134}), ACCURACY)
    ('test 13.40 % (round 15)', 'test 13.40 % (r15)', 'test 13.40 % (r15)')
    >>> _score(Progress(15, 40, row={"round": 15, "miou": 0.25}), Headline("miou", "mIoU", "%", 100.0))
    ('test mIoU 25.00 % (round 15)', 'test mIoU 25.00 %', 'test 25.00 %')
    """
    if progress.row is None or headline.name not in progress.row:
        return "", "", ""
    value, at = headline.with_unit(progress.row[headline.name]), progress.row["round"]
    named = f"test {value}" if headline.name == ACCURACY.name else f"test {headline.label} {value}"
    short = "" if at == progress.round else f" (r{at})"
    return f"{named} (round {at})", f"{named}{short}", f"test {value}{short}"


def _left(progress: Progress) -> tuple[str, str]:
    """The time left of the run and of the study, and a short form.

    >>> _left(Progress(15, 40, seconds_per_round=2.0))
    ('50s left', '50s left')
    >>> _left(Progress(15, 40, seconds_per_round=2.0, study_left=7800.0))
    ('50s left (study 2h10m)', 'study 2h10m left')
    >>> _left(Progress(40, 40)), _left(Progress(40, 40, study_left=7800.0))
    (('done', 'done'), ('done (study 2h10m left)', 'done'))
    """
    own = f"{duration(progress.left)} left" if progress.round < progress.rounds else "done"
    if progress.study_left is None:
        return own, own
    study = f"study {duration(progress.study_left)}"
    return (
        (f"{own} ({study})", f"{study} left")
        if progress.round < progress.rounds
        else (f"{own} ({study} left)", own)
    )


def _short(loss: float) -> str:
    """A loss in two places, or in two digits if it is small.

    >>> _short(2.3), _short(0.4321), _short(0.00321)
    ('2.30', '0.43', '0.0032')
    """
    return f"{loss:.2g}" if abs(loss) < 0.1 else f"{loss:.2f}"


def sentence(progress: Progress, headline: Headline = ACCURACY) -> str:
    """Round, test score, training loss, time left and speed."""
    parts = ProgressParts.of(progress, headline)
    return _line(parts.round, parts.score[0], parts.loss, parts.left[0], parts.speed)


def fitted(progress: Progress, which: RunLabel, width: int) -> str:
    """The progress and the name of the run in one line of at most ``width`` letters.

    Round and time left come first; no word is broken.
    """
    lines = list(_lines(ProgressParts.of(progress, which.headline), which))
    return next((line for line in lines if len(line) <= width), lines[-1])


def _lines(parts: ProgressParts, which: RunLabel) -> Iterator[str]:
    """Possible lines, from the longest to the shortest."""
    count = f"[{which.place}/{which.total}]" if which.total > 1 else ""
    names, (score, short, bare), (left, least) = list(which.names()), parts.score, parts.left
    for name in names:
        yield _line(count, parts.round, score, parts.loss, left, parts.speed, name)
        yield _line(count, parts.round, score, parts.loss, left, name)
    for name in names:
        yield _line(count, parts.round, score, left, name)
    for name in names[2:]:
        yield _line(count, parts.round, short, left, name)
    yield _line(count, parts.round, score, left)
    yield _line(count, parts.round, short, left)
    yield _line(count, parts.round, short, least)
    yield _line(parts.round, short, left)
    yield _line(parts.round, short, least)
    yield _line(parts.round, bare, least)
    yield from (
        _line(count, parts.round, left),
        _line(parts.round, left),
        _line(parts.round, least),
        parts.round,
    )


def _line(*parts: str) -> str:
    return "  ".join(part for part in parts if part)


NOTEBOOK_PAUSE = 0.5
"""Least seconds between two updates of the display."""
SHOWN = 12
"""Most runs in the table; the last ones of a large study."""


def in_notebook() -> bool:
    found = sys.modules.get("IPython")
    shell = found.get_ipython() if found is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


class NotebookDisplay:
    """An output of a notebook, as HTML and as plain text; `update` replaces it."""

    def __init__(self, html: Callable[[], str], text: Callable[[], str]) -> None:
        self._repr_html_ = html
        self.text = text

    def __repr__(self) -> str:
        return self.text()


class NotebookReporter:
    """Shows progress in a notebook; use as a context manager and pass ``reporter`` to a run."""

    def __init__(self, display: Callable[..., Any] | None = None) -> None:
        self.display = display or import_module("IPython.display").display
        self.runs: dict[RunLabel, Progress] = {}
        self.notes: list[str] = []
        self.handle: Any = None
        self.due = 0.0
        self.reporter = Reporter(self.announce, self.print_line, self.note)

    def __enter__(self) -> NotebookReporter:
        return self

    def __exit__(self, *error: object) -> None:
        """Show the last state, also after an error."""
        if self.runs or self.notes:
            self._show()

    def announce(self, exp: Experiment, place: int, total: int) -> OnProgress:
        which = RunLabel(repr(exp.method), exp.seed, place, total, exp.headline)
        self.runs[which] = Progress(0, exp.rounds)
        self._show()

        def show(progress: Progress) -> None:
            ended = progress.round == progress.rounds
            self.runs[which] = replace(progress, study_left=None) if ended else progress
            if ended or time.monotonic() >= self.due:
                self._show()

        return show

    def print_line(self, text: str) -> None:
        """Print what must be seen, as plain text."""
        print(printable_lines(text), file=sys.stderr)

    def note(self, text: str) -> None:
        """Keep a remark, which the display folds."""
        self.notes.append(printable_lines(text).strip())

    def _show(self) -> None:
        self.due = time.monotonic() + NOTEBOOK_PAUSE
        shown = NotebookDisplay(self.html, self.text)
        if self.handle is None:
            self.handle = self.display(shown, display_id=True)
        else:
            self.handle.update(shown)

    def text(self) -> str:
        lines = [
            printable(f"{which.title}: {sentence(progress, which.headline)}")
            for which, progress in self._last()
        ]
        return "\n".join(lines or self.notes)

    def html(self) -> str:
        """A table with a bar a run, and the notes below."""
        rows = "".join(
            f"<tr><td style='text-align:left'><code>{escape(printable(which.title))}</code></td>"
            f"<td><progress max='{progress.rounds}' value='{progress.round}'></progress></td>"
            f"<td style='text-align:left'>{escape(printable(sentence(progress, which.headline)))}</td>"
            "</tr>"
            for which, progress in self._last()
        )
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        folded = f"<details><summary>Notes</summary><ul>{notes}</ul></details>" if notes else ""
        return f"<table>{rows}</table>{folded}"

    def _last(self) -> list[tuple[RunLabel, Progress]]:
        return list(self.runs.items())[-SHOWN:]


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
