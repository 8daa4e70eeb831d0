"""Two loss surfaces in one picture on one scale: the first one solid, the second one as a net."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fedflat.report.collect import Document
from fedflat.report.figure_style import (
    TITLE,
    Drawn,
    comparable,
    in_lines,
    known,
    numbers,
    panels,
)

NET = "#c44d00"
AXES = "height: loss; both sides: distance / length of the weights"
Layer = tuple[Document, str]
"""A surface, and which of its tables is drawn."""
Pair = tuple[str, Layer, Layer]
"""A title, the solid surface, and the net."""


def surfaces_together(document: Document) -> Iterator[Drawn]:
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


def client_surfaces(document: Document) -> Iterator[Drawn]:
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


def _range(layers: Iterable[Layer]) -> tuple[float, float]:
    values = [value for one, key in layers for row in one[key] for value in known(row)]
    return min(values, default=0.0), max(values, default=1.0)


def _figure(pairs: Sequence[Pair], scale: tuple[float, float]) -> Any:
    import numpy as np

    low, high = scale
    figure, axes = panels(len(pairs), projection="3d")
    for axis, (title, solid, net) in zip(axes, pairs, strict=True):
        (x, y, z), (u, v, w) = (
            (
                *np.meshgrid(numbers(one["x"]), numbers(one["y"])),
                np.array([numbers(row) for row in one[key]]),
            )
            for one, key in (solid, net)
        )
        axis.plot_surface(x, y, z, cmap="viridis", vmin=low, vmax=high, linewidth=0, alpha=0.9)
        axis.plot_wireframe(u, v, w, color=NET, linewidth=0.4, rcount=15, ccount=15)
        ends = [solid[0]["x"][0], 0, solid[0]["x"][-1]]
        axis.set(title=in_lines(title, TITLE), zlim=(low, high), xticks=ends, yticks=ends)
        axis.tick_params(pad=-2)
    figure.supxlabel(AXES, fontsize=7)
    return figure
