"""The style of figures for papers: sizes, colours, panels, legends, and which analyses go together.

Widths are those of a column (3.3 inches) or of a page (6.9 inches); text stays text in PDF and SVG.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

from fedflat.report.collect import Document

COLUMN, PAGE = 3.3, 6.9
LEGEND, TITLE = 46, 26
"""Characters in a line of a legend a column wide, and of the title of one of four panels."""
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
STYLE = {
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
Drawn = tuple[str, Any]
"""A name, and the figure of that name."""


def canvas(width: float, height: float, **options: Any) -> tuple[Any, Any]:
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(width, height), layout="constrained", **options)


def panels(count: int, **options: Any) -> tuple[Any, list[Any]]:
    """A page wide of equal squares, at most four in a row."""
    columns = min(count, 4)
    rows = -(-count // columns)
    height = rows * PAGE / max(columns, 2)
    figure, axes = canvas(
        PAGE, height, nrows=rows, ncols=columns, squeeze=False, subplot_kw=options
    )
    for unused in axes.flat[count:]:
        unused.remove()
    return figure, list(axes.flat[:count])


def legend(figure: Any) -> None:
    figure.legend(loc="outside upper left", ncols=1)


def plain(text: str) -> str:
    """Text that matplotlib does not take for mathematics."""
    return text.replace("$", r"\$")


def in_lines(text: str, letters: int) -> str:
    """The same in lines of at most so many letters."""
    return plain("\n".join(wrap(text, letters)))


def look(place: int) -> dict[str, Any]:
    """A colour and a dash; a hundred methods differ, since the dash moves on when the colours
    repeat."""
    return {
        "color": COLORS[place % len(COLORS)],
        "linestyle": DASHES[(place + place // len(COLORS)) % len(DASHES)],
    }


def numbers(values: Sequence[float | None], factor: float = 1.0) -> list[float]:
    return [float("nan") if value is None else factor * value for value in values]


def comparable(items: Sequence[Document]) -> Iterator[tuple[str, list[Document]]]:
    """Analyses of one section with equal settings and seeds; the first such group has no name of
    its own."""
    groups: dict[tuple[str, str, int], list[Document]] = {}
    for one in items:
        groups.setdefault((one["section"], one["settings"], one["seed"]), []).append(one)
    for place, group in enumerate(groups.values()):
        yield f"-{place + 1}" if place else "", group


def known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]
