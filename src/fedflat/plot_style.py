"""The style of figures for papers: widths in inches, colours, fonts.

A column of a paper is 3.25 inches wide, and a page of two columns 6.75 inches. No text is smaller
than 7 points. Text stays text in PDF and SVG.
"""

from __future__ import annotations

import io
from pathlib import Path
from textwrap import wrap
from typing import Any

from fedflat.errors import SettingError
from fedflat.files import unwritable

COLUMN, PAGE = 3.25, 6.75
COLORS = (
    "#0067a5",
    "#c44d00",
    "#007f5b",
    "#a0468a",
    "#85690a",
    "#2584b8",
    "#5d5d5d",
    "#7a3b0c",
    "#4b4bb5",
    "#b0063f",
)
DASHES = (
    "-",
    "--",
    ":",
    "-.",
    (0, (1, 3)),
    (0, (8, 2)),
    (0, (4, 1, 1, 1)),
    (0, (2, 4)),
    (0, (6, 1)),
    (0, (3, 1)),
)
"""The dashes of curves. A hundred methods differ, since the dash moves on when the colours repeat."""
STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.2,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "savefig.dpi": 300,
    "axes.formatter.useoffset": False,
    "svg.hashsalt": "fedflat",  # drawn twice, the same bytes
}

LETTER, KEY, LINE = 0.056, 0.5, 0.15
"""The widths of a character and of the key of a legend, and the height of its lines, in inches."""
LEGEND = 46
"""Characters in a line of a legend a column wide."""
FREE = 2
"""Lines of a legend that the height of a figure has room for."""


def pyplot() -> Any:
    """matplotlib's pyplot; an error that says how to install it if it is missing."""
    try:
        from matplotlib import pyplot as found
    except ImportError:
        raise SettingError(
            "figures need matplotlib, which is not installed. Install it: "
            "pip install 'fedflat[figures]'."
        ) from None
    return found


def legend(figure: Any) -> None:
    """A legend above the axes, each entry once, in as many columns as fit; none without entries. A
    long one makes the figure taller, so the axes keep their size."""
    keys: dict[str, Any] = {}
    for axis in figure.axes:
        for key, text in zip(*axis.get_legend_handles_labels(), strict=True):
            keys.setdefault(text, key)
    if not keys:
        return
    entries = [text.split("\n") for text in keys]
    letters = max(len(line) for lines in entries for line in lines)
    columns = int(figure.get_figwidth() / (LETTER * letters + KEY))
    columns = max(1, min(columns, len(entries)))
    figure.legend(keys.values(), list(keys), loc="outside upper left", ncols=columns)
    lines = -(-sum(map(len, entries)) // columns)
    figure.set_figheight(figure.get_figheight() + LINE * max(0, lines - FREE))


def plain(text: str) -> str:
    """Text that matplotlib does not take for mathematics."""
    return text.replace("$", r"\$")


def in_lines(text: str, letters: int) -> str:
    """The text in lines of at most so many letters."""
    return plain("\n".join(wrap(text, letters)))


def look(place: int) -> dict[str, Any]:
    """The colour and the dash of the method with this look.

    A hundred methods differ, since the dash moves on when the colours repeat.
    """
    return {
        "color": COLORS[place % len(COLORS)],
        "linestyle": DASHES[(place + place // len(COLORS)) % len(DASHES)],
    }


class ShownFigure:
    """A figure that a notebook shows; ``figure`` is that of matplotlib."""

    def __init__(self, figure: Any) -> None:
        self.figure = figure

    def __repr__(self) -> str:
        width, height = self.figure.get_size_inches()
        return f"<figure of {width:.2f} x {height:.2f} inches; save(file) writes PDF, SVG or PNG>"

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        with pyplot().rc_context(STYLE):
            self.figure.savefig(stream, format="png", dpi=150)
        return stream.getvalue()

    def save(self, file: str | Path) -> Path:
        """Write the figure; the end of the name says how: .pdf, .svg or .png.

        file
            Name of the file.
        """
        path = Path(file)
        if path.suffix.lower() not in (".pdf", ".svg", ".png"):
            raise SettingError(
                f"a figure is written as .pdf, .svg or .png, found {path.name!r}. "
                "Give the file one of these endings."
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with pyplot().rc_context(STYLE):
                self.figure.savefig(path)
        except OSError as error:
            raise unwritable(path, error) from error
        return path
