"""Loss surfaces side by side, and two in one picture: the first one solid, the second one as a net.
All surfaces of a figure have one scale."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fedflat.errors import SettingError
from fedflat.plot_style import in_lines, look
from fedflat.report.collect import Document
from fedflat.report.figure_style import (
    NamedFigure,
    comparable,
    height_map,
    known,
    panels,
    plain_powers,
    title_letters,
)
from fedflat.report.surface_drawing import Scale, draw_surface

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
