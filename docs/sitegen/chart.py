"""Line charts as SVG in a page. Colours are those of the theme, so they follow light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 250, 48, 110, 26, 36

Line = tuple[str, Sequence[float], Sequence[float]]
"""A name, and the coordinates of its points."""


def line_chart(lines: Sequence[Line], *, x: str, y: str, title: str) -> str:
    """A chart of lines with values from 0 to 1, labelled at their right ends.

    Args:
        lines: the lines, the most important last.
        x: what the horizontal axis shows.
        y: what the vertical axis shows.
        title: what a screen reader says.
    """
    last = max(max(xs) for _, xs, _ in lines)

    def at(a: float, b: float) -> tuple[float, float]:
        right, low = WIDTH - RIGHT, HEIGHT - BOTTOM
        return LEFT + (right - LEFT) * a / last, low - (low - TOP) * b

    marks = [_axes(at, last, x, y)]
    ends: list[float] = []
    for number, (name, xs, ys) in enumerate(lines):
        kind = "chart-main" if number == len(lines) - 1 else "chart-other"
        points = " ".join("{:.1f},{:.1f}".format(*at(a, b)) for a, b in zip(xs, ys, strict=True))
        end_x, end_y = at(xs[-1], ys[-1])
        if ends and abs(end_y - ends[-1]) < 14:
            end_y = ends[-1] + (14 if end_y >= ends[-1] else -14)
        ends.append(end_y)
        marks.append(f'<polyline class="{kind}" points="{points}"/>')
        marks.append(
            f'<text class="{kind}-text" x="{end_x + 6:.1f}" y="{end_y + 4:.1f}">{escape(name)}</text>'
        )
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        + "".join(marks)
        + "</svg>\n"
    )


def _axes(at, last: float, x: str, y: str) -> str:
    marks = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        (left, level), (right, _) = at(0, share), at(last, share)
        marks.append(f'<path class="chart-grid" d="M{left:.1f} {level:.1f}H{right:.1f}"/>')
        marks.append(
            f'<text x="{left - 6:.1f}" y="{level + 4:.1f}" text-anchor="end">{share:.0%}</text>'
        )
    for part in (0, 0.5, 1):
        place, level = at(last * part, 0)
        marks.append(
            f'<text x="{place:.1f}" y="{level + 16:.1f}" text-anchor="middle">{last * part:g}</text>'
        )
    middle, low = at(last / 2, 0)
    marks.append(f'<text x="{middle:.1f}" y="{low + 32:.1f}" text-anchor="middle">{x}</text>')
    marks.append(f'<text x="{LEFT}" y="12">{y}</text>')
    return "".join(marks)
