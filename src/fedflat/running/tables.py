"""Results as a table: text for people, CSV for programs, Markdown for papers, HTML for notebooks."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from html import escape

from fedflat.running.results import Summary, percent

FORMATS = ("text", "csv", "markdown", "html")


def table(summaries: Sequence[Summary], target: float | None, last: int, style: str = "text") -> str:
    """The table of a comparison; ``last`` is over how many of the last rounds accuracies are averaged."""
    if style == "csv":
        return _csv(summaries)
    personal = any(math.isfinite(summary.personal) for summary in summaries)
    heads = ["method", "accuracy %", "last %", "best %", *(["personal %"] if personal else []), "loss"]
    if target is not None:
        heads += [f"rounds to {100 * target:.1f} %", f"sent to {100 * target:.1f} %"]
    heads += ["sent in all", "samples/s"]
    rows = [_cells(summary, personal, target is not None) for summary in summaries]
    draw = {"text": _text, "markdown": _markdown, "html": _html}[style]
    seeds = summaries[0].seeds
    spread = f", mean ± standard deviation over {seeds} seeds" if seeds > 1 else ""
    which = f"mean of the evaluations in the last {last} rounds" if last > 1 else "the last evaluation"
    foot = f"Accuracy and loss on the test set: {which}{spread}. Last, best: of all evaluations."
    if personal:
        foot += "\nPersonal: the clients' own models, each on its own held-out part; mean over clients, best round."
    return f"{draw(heads, rows)}\n\n{foot}"


def _cells(s: Summary, personal: bool, target: bool) -> list[str]:
    accuracy = percent(s.accuracy, s.spread)
    if s.diverged:
        accuracy = "X (diverged)" if s.diverged == s.seeds else f"{accuracy} ({s.diverged} diverged)"
    own = [percent(s.personal, s.personal_spread)] if personal else []
    cells = [s.method, accuracy, percent(s.latest), percent(s.best), *own, f"{s.loss:.4f}"]
    if target:
        cells += [
            "-" if s.rounds_to_target is None else f"{s.rounds_to_target:.0f}",
            "-" if s.bytes_to_target is None else size(s.bytes_to_target),
        ]
    return [*cells, size(s.bytes), f"{s.speed:,.0f}"]


def size(count: float) -> str:
    """Bytes for people.

    >>> size(1536), size(2.5e9)
    ('1.5 kB', '2.50 GB')
    """
    for unit, step in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= step:
            digits = 2 if unit == "GB" else 1
            return f"{count / step:.{digits}f} {unit}"
    return f"{count:.0f} B"


def _text(heads: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]

    def line(row: list[str]) -> str:
        numbers = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        return "  ".join([row[0].ljust(widths[0]), *numbers])

    return "\n".join([line(heads), line(["-" * width for width in widths]), *map(line, rows)])


def _markdown(heads: list[str], rows: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(heads) - 1)]
    cells = [heads, rule, *([f"`{row[0]}`", *row[1:]] for row in rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def _html(heads: list[str], rows: list[list[str]]) -> str:
    def line(row: list[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"

    body = "\n".join(line(row, "td") for row in rows)
    return f"<table>\n<thead>{line(heads, 'th')}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _csv(summaries: Sequence[Summary]) -> str:
    stream = io.StringIO()
    names = list(vars(summaries[0]))
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    for summary in summaries:
        writer.writerow("" if value is None else value for value in vars(summary).values())
    return stream.getvalue().rstrip("\n")
