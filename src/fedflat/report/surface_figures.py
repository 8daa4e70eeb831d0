"""Loss surfaces side by side, and two in one picture: the first one solid, the second one as a net.
All surfaces of a figure have one scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fedflat.errors import SettingError
from fedflat.plot_style import in_lines, look
from fedflat.report.collect import Document
from fedflat.report.figure_style import (
    HEIGHTS,
    NamedFigure,
    comparable,
    height_map,
    known,
    numbers,
    panels,
    plain_powers,
    title_letters,
)

TURN, TILT, RISE = -0.7, 0.55, 1.1
"""The view, as on the page."""
SIN, COS = math.sin(TURN), math.cos(TURN)
UP, FLAT = math.cos(TILT), math.sin(TILT)
INK, RULE = "#333333", "#d0d0d0"
WIDE = 30
"""A loss that is so many times the least one is drawn on a logarithmic axis."""
Point = tuple[float, float]


@dataclass(frozen=True)
class Scale:
    """Heights as shares of the range that all surfaces of a figure have."""

    low: float
    high: float

    @property
    def log(self) -> bool:
        """Whether the axis is logarithmic."""
        return 0 < self.low < self.high / WIDE

    def share(self, value: float) -> float:
        """The height of a value: 0 at the least one, 1 at the largest one."""
        low, high = (math.log(end) if self.log else end for end in (self.low, self.high))
        at = math.log(max(value, 1e-9)) if self.log else value
        return (at - low) / ((high - low) or 1.0)


def project(x: float, y: float, z: float) -> Point:
    """The position in the drawing of a point of the box; x and y go from -1 to 1, z from 0 to 1."""
    return x * COS - y * SIN, RISE * z * UP + (x * SIN + y * COS) * FLAT


def draw_surface(
    axis: Any, one: Document, key: str, scale: Scale, net: tuple[Document, str, str] | None = None
) -> None:
    """Draw the table ``key`` of a surface; ``net`` is a second surface, its table and its
    colour."""
    from matplotlib.collections import PolyCollection

    axis.set_axis_off()
    axis.set_aspect("equal")
    _box(axis)
    cells = [*_cells(one, key, scale)]
    if net:
        cells += _cells(*net[:2], scale, net[2])
    cells.sort(key=lambda cell: cell[0])
    axis.add_collection(
        PolyCollection(
            [cell[1] for cell in cells],
            facecolors=[cell[2] for cell in cells],
            edgecolors=[cell[3] for cell in cells],
            linewidths=[cell[4] for cell in cells],
            joinstyle="round",
            zorder=2,
        )
    )
    _distances(axis, one)
    corner = min(
        ((x, y) for x in (-1, 1) for y in (-1, 1)), key=lambda at: project(at[0], at[1], 0.0)[0]
    )
    for z, value in ((0.0, scale.low), (1.0, scale.high)):
        x, y = project(corner[0], corner[1], z)
        axis.text(x - 0.06, y, f"{value:.3g}", ha="right", va="center", fontsize=7, color=INK)
    center = (one.get("center") or {}).get(key)
    if center is not None and not net:
        _model(axis, one, center, scale)
    axis.set(xlim=(-1.75, 1.6), ylim=(-0.98, 1.7))


def _box(axis: Any) -> None:
    """The floor and the two far walls."""

    def line(*points: tuple[float, float, float]) -> None:
        at = [project(*point) for point in points]
        axis.plot([x for x, _ in at], [y for _, y in at], color=RULE, linewidth=0.5, zorder=1)

    far = 1.0 if SIN > 0 else -1.0, 1.0 if COS > 0 else -1.0
    for z in (0.0, 0.5, 1.0):
        line((-far[0], far[1], z), (far[0], far[1], z), (far[0], -far[1], z))
    for t in (-1.0, -0.5, 0.0, 0.5, 1.0):
        line((t, -1.0, 0.0), (t, 1.0, 0.0))
        line((-1.0, t, 0.0), (1.0, t, 0.0))
    for x, y in ((-far[0], far[1]), far, (far[0], -far[1])):
        line((x, y, 0.0), (x, y, 1.0))


def _cells(
    one: Document, key: str, scale: Scale, net: str = ""
) -> Iterator[tuple[tuple[float, float], list[Point], Any, Any, float]]:
    """Depth, corners, colour, colour of the edge and width of the edge of each cell; far ones have
    the least depth."""
    x, y = (_unit(numbers(one[side])) for side in ("x", "y"))
    heights = [[scale.share(value) for value in numbers(row)] for row in one[key]]
    for j in range(len(y) - 1):
        for i in range(len(x) - 1):
            z = [heights[j][i], heights[j][i + 1], heights[j + 1][i + 1], heights[j + 1][i]]
            if not all(map(math.isfinite, z)):
                continue
            sides = [(x[i], y[j]), (x[i + 1], y[j]), (x[i + 1], y[j + 1]), (x[i], y[j + 1])]
            corners = [project(*at, height) for at, height in zip(sides, z, strict=True)]
            middle = (x[i] + x[i + 1]) / 2, (y[j] + y[j + 1]) / 2
            depth = -(middle[0] * SIN + middle[1] * COS), sum(z) / 4
            if net:
                yield depth, corners, (1, 1, 1, 0.12), net, 0.45
            else:
                color = _lit(z, len(x) - 1, len(y) - 1)
                edge = tuple(0.82 * channel for channel in color)
                yield depth, corners, color, edge, 0.25


def _lit(z: Sequence[float], columns: int, rows: int) -> tuple[float, ...]:
    """The colour of a cell by its height, lit from one side."""
    a, b, c, d = z
    dx, dy = RISE * (b + c - a - d) * columns / 4, RISE * (c + d - a - b) * rows / 4
    light = (0.45 * dx - 0.35 * dy + 0.82) / math.hypot(dx, dy, 1)
    lit = 0.72 + 0.34 * max(0.0, light)
    return tuple(min(1.0, channel * lit) for channel in _height_color(sum(z) / 4))


def _height_color(share: float) -> tuple[float, ...]:
    """The colour of a height between 0 and 1.

    >>> _height_color(0.0) == tuple(channel / 255 for channel in HEIGHTS[0])
    True
    """
    place = min(1.0, max(0.0, share)) * (len(HEIGHTS) - 1)
    at = min(len(HEIGHTS) - 2, int(place))
    pair = zip(HEIGHTS[at], HEIGHTS[at + 1], strict=True)
    return tuple((low + (high - low) * (place - at)) / 255 for low, high in pair)


def _unit(values: Sequence[float]) -> list[float]:
    return [_along(values, value) for value in values]


def _along(values: Sequence[float], value: float) -> float:
    """A place between -1, the first of the values, and 1, the last one."""
    return 2 * (value - values[0]) / ((values[-1] - values[0]) or 1.0) - 1


def _distances(axis: Any, one: Document) -> None:
    """Distances from the model along the two near sides: at most three, which do not touch."""
    near = -1.0 if SIN > 0 else 1.0, -1.0 if COS > 0 else 1.0
    far = one.get("length") or 1.0
    for side in ("x", "y"):
        values = numbers(one[side])
        reach = _round(0.7 * min(abs(values[0]), abs(values[-1])) * far)
        for distance in (-reach, 0.0, reach) if reach else ():
            at = _along(values, distance / far)
            x, y = project(at, near[1], 0.0) if side == "x" else project(near[0], at, 0.0)
            away = math.hypot(x, y) or 1.0
            axis.text(
                x + 0.13 * x / away,
                y + 0.13 * y / away,
                f"{distance:g}",
                ha="center",
                va="center",
                fontsize=7,
                color=INK,
            )


def _round(value: float) -> float:
    """The next number below with one digit: 1, 2 or 5 times a power of ten.

    >>> _round(0.7), _round(23.0), _round(0.0)
    (0.5, 20.0, 0.0)
    """
    if value <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    return max(step for step in (1.0, 2.0, 5.0) if step * power <= value) * power


def _model(axis: Any, one: Document, value: float, scale: Scale) -> None:
    """The model itself, and its loss."""
    from matplotlib.patheffects import withStroke

    x, y = (numbers(one[side]) for side in ("x", "y"))
    if not (x[0] <= 0 <= x[-1] and y[0] <= 0 <= y[-1]):
        return
    at = project(_along(x, 0.0), _along(y, 0.0), scale.share(value))
    style = {"color": "white", "markeredgecolor": "black", "markersize": 3.5, "zorder": 4}
    axis.plot(*at, "o", **style)
    axis.text(
        at[0],
        at[1] + 0.1,
        f"{value:.3g}",
        ha="center",
        va="bottom",
        fontsize=7,
        zorder=5,
        path_effects=[withStroke(linewidth=1.5, foreground="white")],
    )


TALL = 0.82
"""The height of a panel by its width."""
Layer = tuple[Document, str]
"""A surface, and which of its tables is drawn."""
Pair = tuple[str, Layer, Layer]
"""A title, the solid surface, and the net."""
ROOM = 0.1
"""Inches above and below a panel: a title of two lines would be cut off at the edge."""


def surfaces(document: Document) -> Iterator[NamedFigure]:
    """Surfaces side by side, on one scale."""
    for name, items in comparable([one for one in document["surface"] if "loss" in one]):
        scale = _range((one, "loss") for one in items)
        figure, axes = panels(len(items), TALL)
        for axis, one in zip(axes, items, strict=True):
            draw_surface(axis, one, "loss", scale)
            axis.set_title(in_lines(one["label"], title_letters(len(items))))
        _explain(figure, axes, scale, items[0])
        yield f"surface{name}", figure


def surfaces_together(document: Document) -> Iterator[NamedFigure]:
    """The surfaces of two methods: each other method as a net over the first one."""
    for name, items in comparable([one for one in document["surface"] if "loss" in one]):
        first = items[0]
        pairs: list[Pair] = [
            (f"{first['label']} (solid) and {one['label']} (net)", (first, "loss"), (one, "loss"))
            for one in items[1:]
        ]
        if pairs:
            scale = _range((one, "loss") for one in items)
            yield f"surface-together{name}", _figure(pairs, scale)


def client_surfaces(document: Document) -> Iterator[NamedFigure]:
    """Surfaces of clients' models: on their own data solid, on everyone's data as a net.

    Two methods on everyone's data are drawn together too.
    """
    for name, items in comparable(document["client_surfaces"]):
        tables = ("own", "everyone")
        scale = _range((one, key) for item in items for one in item["surfaces"] for key in tables)
        for place, one in enumerate(items):
            more = f"-{place + 1}" if place else ""
            found: list[Pair] = [
                (
                    f"{one['label']}, {_client(own)}: own data (solid), everyone's (net)",
                    (own, "own"),
                    (own, "everyone"),
                )
                for own in one["surfaces"]
            ]
            yield f"client-surfaces{name}{more}", _figure(found, scale)
        if len(items) == 2:
            first, second = ({s["client"]: s for s in one["surfaces"]} for one in items)
            title = f"{items[0]['label']} (solid), {items[1]['label']} (net)"
            both: list[Pair] = [
                (f"{_client(first[k])}: {title}", (first[k], "everyone"), (second[k], "everyone"))
                for k in first
                if k in second
            ]
            if both:
                yield f"client-surfaces-together{name}", _figure(both, scale)


def _client(surface: Document) -> str:
    return f"client {surface['client']} (class {surface['class']})"


def _range(layers: Iterable[Layer]) -> Scale:
    values = [value for one, key in layers for row in one[key] for value in known(row)]
    if not values:
        raise SettingError(
            "a surface without a single finite loss cannot be drawn. Analyse it again, closer by."
        )
    return Scale(min(values), max(values))


def _figure(pairs: Sequence[Pair], scale: Scale) -> Any:
    figure, axes = panels(len(pairs), TALL + 0.04)
    for axis, (title, solid, net) in zip(axes, pairs, strict=True):
        color = look(net[0].get("look", 1))["color"]
        in_lengths = solid[0] | {"length": None}  # two models have two lengths
        draw_surface(axis, in_lengths, solid[1], scale, (*net, color))
        axis.set_title(in_lines(title, title_letters(len(pairs))))
    _explain(figure, axes, scale, {})
    return figure


def _explain(figure: Any, axes: Sequence[Any], scale: Scale, one: Document) -> None:
    """The scale of heights, and what the sides are."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm, Normalize

    norm = (LogNorm if scale.log else Normalize)(scale.low, scale.high)
    bar = figure.colorbar(ScalarMappable(norm, height_map()), ax=axes, shrink=0.6, aspect=16)
    bar.set_label("loss")
    if scale.log:
        plain_powers(bar.ax.yaxis)
    sides = "distance" if one.get("length") else "distance / length of the weights"
    figure.supxlabel(f"sides: {sides} from the model; height: loss", fontsize=7)
    figure.get_layout_engine().set(h_pad=ROOM)
