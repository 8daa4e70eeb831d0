"""A small writer of SVG drawings whose colours follow light and dark."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

COLOURS = {
    "ink": ("#1f2328", "#e6edf3"),
    "muted": ("#57606a", "#a3adb8"),
    "line": ("#8c959f", "#6e7781"),
    "paper": ("#f6f8fa", "#21262d"),
    "blue": ("#0b62c4", "#6cb6ff"),
    "orange": ("#a04400", "#f0a35e"),
    "green": ("#1a7f37", "#56d364"),
    "purple": ("#8250df", "#d2a8ff"),
    "pale-blue": ("#dcebff", "#16324f"),
    "pale-orange": ("#ffe9d1", "#4a2f14"),
    "pale-green": ("#dff5e3", "#173d24"),
    "pale-purple": ("#eee5ff", "#33245a"),
}
"""The colour of each name on light and on dark paper."""


def variables(dark: bool) -> str:
    """The colours as variables of CSS."""
    return "".join(f"--d-{name}:{pair[dark]};" for name, pair in COLOURS.items())


STYLE = (
    f"<style>svg.drawing{{{variables(False)}}}"
    f"@media (prefers-color-scheme: dark){{svg.drawing{{{variables(True)}}}}}</style>"
)
"""For the file by itself. On the site, the theme chooses: sitegen/drawings.py."""


def _colour(name: str) -> str:
    return f"var(--d-{name})" if name in COLOURS else name


class Drawing:
    """Shapes and texts, in the order in which they are drawn."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.marks: list[str] = []

    def box(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        *,
        fill: str = "paper",
        line: str = "line",
        r: float = 6,
        dash: bool = False,
    ) -> None:
        """A rectangle with round corners."""
        self.marks.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="{r:g}" '
            f'fill="{_colour(fill)}" stroke="{_colour(line)}"{_dash(dash)}/>'
        )

    def dot(self, x: float, y: float, r: float, *, fill: str = "ink", line: str = "none") -> None:
        """A circle."""
        self.marks.append(
            f'<circle cx="{x:.4g}" cy="{y:.4g}" r="{r:.3g}" fill="{_colour(fill)}" '
            f'stroke="{_colour(line)}"/>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        colour: str = "ink",
        size: int = 14,
        at: str = "middle",
        bold: bool = False,
        code: bool = False,
    ) -> None:
        """A line of text; ``at`` is start, middle or end."""
        font = ' font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"' if code else ""
        weight = ' font-weight="600"' if bold else ""
        self.marks.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{at}" '
            f'fill="{_colour(colour)}"{font}{weight}>{escape(text)}</text>'
        )

    def path(
        self,
        points: Iterable[tuple[float, float]],
        *,
        colour: str = "ink",
        width: float = 1.5,
        dash: bool = False,
        arrow: bool = False,
    ) -> None:
        """A line through points, with an arrow head at its end if asked for."""
        places = list(points)
        d = "M" + "L".join(f"{x:.4g} {y:.4g}" for x, y in places)
        self.marks.append(
            f'<path d="{d}" fill="none" stroke="{_colour(colour)}" stroke-width="{width:g}"'
            f' stroke-linejoin="round"{_dash(dash)}/>'
        )
        if arrow:
            self._head(places[-2], places[-1], colour)

    def _head(self, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
        dx, dy = end[0] - start[0], end[1] - start[1]
        length = (dx * dx + dy * dy) ** 0.5
        ux, uy = dx / length, dy / length
        back = (end[0] - 8 * ux, end[1] - 8 * uy)
        corners = [end, (back[0] - 4 * uy, back[1] + 4 * ux), (back[0] + 4 * uy, back[1] - 4 * ux)]
        points = " ".join(f"{x:.4g},{y:.4g}" for x, y in corners)
        self.marks.append(f'<polygon points="{points}" fill="{_colour(colour)}"/>')

    def write(self) -> str:
        """The text of the file."""
        return (
            f'<svg class="drawing" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} '
            f'{self.height}" role="img" font-family="system-ui,sans-serif">\n'
            f"<title>{escape(self.title)}</title>\n{STYLE}\n" + "\n".join(self.marks) + "\n</svg>\n"
        )


def _dash(dash: bool) -> str:
    return ' stroke-dasharray="5 4"' if dash else ""
