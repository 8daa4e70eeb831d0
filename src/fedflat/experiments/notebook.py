"""Progress in a notebook: a table that the notebook's own display updates.

The notebook's file keeps the last state of the table, as HTML and as plain text. It holds no escape
codes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from html import escape
from importlib import import_module
from typing import Any

from fedflat.errors import printable, printable_lines
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.progress import OnProgress, Progress
from fedflat.experiments.progress_texts import RunLabel, sentence
from fedflat.experiments.study import Reporter

PAUSE = 0.5
"""Least seconds between two updates of the display."""
SHOWN = 12
"""Most runs in the table; the last ones of a large study."""


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
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
        """A run begins."""
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
        self.due = time.monotonic() + PAUSE
        shown = NotebookDisplay(self.html, self.text)
        if self.handle is None:
            self.handle = self.display(shown, display_id=True)
        else:
            self.handle.update(shown)

    def text(self) -> str:
        """One line a run."""
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
