"""The style of figures for papers: sizes, colours, panels, legends, and which analyses go together.

Widths are those of a column (3.25 inches) or of a page of two columns (6.75 inches). A method has
the colour and the dash that it has on the page. No text is smaller than 7 points. Text stays text
in PDF and SVG.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from fedflat.plot_style import COLUMN, PAGE
from fedflat.report.collect import Document

TITLE_LETTER = 0.063
"""The width of a character of a title, in inches."""
COLUMNS: ContextVar[int | None] = ContextVar("columns", default=None)
"""How many columns wide every figure is; None: as wide as it needs."""
HEIGHTS = ((45, 32, 110), (38, 92, 158), (42, 152, 146), (140, 197, 98), (247, 221, 96))
"""The colours of heights, from low to high, as on the page."""
CELLS = ((243, 241, 236), (110, 170, 208), (6, 58, 100))
"""The colours of cells of heat maps, from low to high, as on the page."""
SIGNED = ((120, 50, 4), (222, 154, 98), *CELLS)
"""Those of values of both signs: 0 has the middle one."""
NamedFigure = tuple[str, Any]
"""A name, and the figure of that name."""


def wide(natural: float) -> float:
    """The width of a figure: that of the columns that were asked for, or its natural one."""
    columns = COLUMNS.get()
    return natural if columns is None else COLUMN if columns == 1 else PAGE


def canvas(width: float, height: float, **options: Any) -> tuple[Any, Any]:
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(wide(width), height), layout="constrained", **options)


def height_map() -> Any:
    return _color_map("heights", HEIGHTS)


def cell_colors(low: float, high: float) -> dict[str, Any]:
    """The colour map of cells and its limits; with values of both signs, 0 is in the middle."""
    if low < 0 < high:
        most = max(-low, high)
        return {"cmap": _color_map("signed", SIGNED), "vmin": -most, "vmax": most}
    return {"cmap": _color_map("cells", CELLS), "vmin": low, "vmax": high}


def mark_gaps(axis: Any) -> None:
    """Stripes behind cells without a value."""
    axis.patch.set(facecolor="white", edgecolor="#bbbbbb", hatch="/////", linewidth=0)


def _color_map(name: str, colors: Sequence[tuple[int, int, int]]) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    stops = [tuple(channel / 255 for channel in color) for color in colors]
    return LinearSegmentedColormap.from_list(name, stops)


def panels(count: int, tall: float = 1.0, **options: Any) -> tuple[Any, list[Any]]:
    """A page wide of equal panels, at most four in a row, or two in a row of a column; ``tall`` is
    the height of a panel by its width."""
    columns, width = _in_a_row(count), wide(PAGE)
    rows = -(-count // columns)
    height = rows * tall * width / max(columns, 2 if width > COLUMN else 1)
    figure, axes = canvas(
        width, height, nrows=rows, ncols=columns, squeeze=False, subplot_kw=options
    )
    for unused in axes.flat[count:]:
        unused.remove()
    return figure, list(axes.flat[:count])


def _in_a_row(count: int) -> int:
    return min(count, 4 if wide(PAGE) > COLUMN else 2)


def title_letters(count: int) -> int:
    """Letters in a line of the title of one of so many panels."""
    return int(0.8 * wide(PAGE) / _in_a_row(count) / TITLE_LETTER)


def plain_powers(side: Any) -> None:
    """Numbers such as 0.001 on a logarithmic axis; exponents would be too small to read."""
    side.set_major_formatter("{x:g}")
    side.set_minor_formatter("")


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
