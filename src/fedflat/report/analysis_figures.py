"""Figures of eigenvalues, corrupted images, lines between models, clients' descriptions, and
recorded metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from fedflat.plot_style import COLUMN, LEGEND, PAGE, in_lines, legend, look, plain
from fedflat.report.collect import Document
from fedflat.report.figure_style import (
    NamedFigure,
    canvas,
    cell_colors,
    comparable,
    known,
    mark_gaps,
    numbers,
    panels,
    title_letters,
)

GAMMA = "\N{GREEK SMALL LETTER GAMMA}"


def eigenvalue_stems(document: Document) -> Iterator[NamedFigure]:
    """The largest eigenvalues of the Hessian, one stem each."""
    found = [one for one in document["curvature"] if known(one.get("eigenvalues", []))]
    for name, items in comparable(found):
        figure, axis = canvas(COLUMN, 2.4)
        step = 0.7 / len(items)
        for place, one in enumerate(items):
            values, color = numbers(one["eigenvalues"]), look(one["look"])["color"]
            shift = step * (place - (len(items) - 1) / 2)
            x = [1 + i + shift for i in range(len(values))]
            axis.vlines(x, 0, values, color=color)
            axis.plot(x, values, "o", color=color, markersize=3, label=_label(one))
        axis.axhline(0, color="black", linewidth=0.6)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set(xlabel="rank", ylabel="eigenvalue")
        legend(figure)
        yield f"eigenvalues{name}", figure


def layer_dots(document: Document) -> Iterator[NamedFigure]:
    """The largest eigenvalue of each layer's own block of the Hessian."""
    for name, items in comparable([one for one in document["curvature"] if one.get("layers")]):
        layers = list(dict.fromkeys(layer for one in items for layer in one["layers"]))
        figure, axis = canvas(COLUMN, 0.8 + 0.16 * len(layers))
        for one in items:
            values = numbers([one["layers"].get(layer) for layer in layers])
            color = look(one["look"])["color"]
            axis.plot(values, range(len(layers)), "o", color=color, markersize=4, label=_label(one))
        axis.set_yticks(range(len(layers)), map(plain, layers))
        axis.grid(axis="y", linewidth=0.3)
        ends = {"xlim": (0, None), "ylim": (len(layers) - 0.4, -0.6)}
        axis.set(xlabel="largest eigenvalue of the layer", **ends)
        legend(figure)
        yield f"layers{name}", figure


def corruption_bars(document: Document) -> Iterator[NamedFigure]:
    """The headline score under each kind of corruption, mean over severities."""
    for name, items in comparable(document["corruptions"]):
        headline = document["boards"][document["methods"][items[0]["method"]]["board"]]["headline"]
        kinds = list(dict.fromkeys(kind for one in items for kind in one["kinds"]))
        figure, axis = canvas(PAGE, 3.0)
        width = 0.8 / len(items)
        for place, one in enumerate(items):
            means = [_mean(one["kinds"].get(kind, [])) for kind in kinds]
            values = numbers([one["clean"], *means, one["mean"]], headline["factor"])
            x = [i + width * (place - (len(items) - 1) / 2) for i in range(len(values))]
            axis.bar(x, values, width, color=look(one["look"])["color"], label=_label(one))
        labels = ["clean", *(kind.replace("_", " ") for kind in kinds), "mean of all"]
        axis.set_xticks(range(len(labels)), labels, rotation=45, ha="right", rotation_mode="anchor")
        unit = f", {headline['unit']}" if headline["unit"] else ""
        axis.set(ylabel=plain(headline["label"] + unit))
        legend(figure)
        yield f"corruptions{name}", figure


def barriers(document: Document) -> Iterator[NamedFigure]:
    """Loss and error on the line between two models, with the barrier in the legend."""
    for name, items in comparable(document["interpolate"]):
        drawn = [one for one in ("loss", "error") if any(one in item for item in items)]
        figure, axes = canvas(PAGE, 2.8, ncols=len(drawn), squeeze=False)
        for measure, axis in zip(drawn, axes.flat, strict=True):
            looks = [one["look"] for one in items]
            distinct = len(set(looks)) == len(looks)
            for place, one in enumerate(items):
                if measure not in one:
                    continue
                first = "" if measure != drawn[0] else _line_label(one)
                factor = 100.0 if measure == "error" else 1.0
                values = numbers(one[measure], factor)
                axis.plot(
                    numbers(one["gamma"]),
                    values,
                    label=first,
                    **look(looks[place] if distinct else place),
                )
            axis.set(xlabel=GAMMA, ylabel="error, %" if measure == "error" else "loss")
        legend(figure)
        yield f"barrier{name}", figure


def _line_label(one: Document) -> str:
    barrier = "" if one["barrier"] is None else f", barrier {one['barrier']:.3g}"
    return in_lines(f"{one['b']} (0) to {one['a']} (1){barrier}", 2 * LEGEND)


def description_maps(document: Document) -> Iterator[NamedFigure]:
    """Distances between the clients' descriptions, and the cosines of what the clients sent."""
    import numpy as np

    for name, items in comparable(document["descriptions"]):
        for measure in ("distances", "cosines"):
            tables = [np.array([numbers(row) for row in one[measure]]) for one in items]
            low, high = _least(tables), -_least([-one for one in tables])
            figure, axes = _square_panels(len(items))
            for axis, one, values in zip(axes, items, tables, strict=True):
                drawn = axis.imshow(values, **cell_colors(low, high))
                title = f"{one['description']}, {one['components']} components"
                axis.set_title(in_lines(title, title_letters(len(items))), loc="left")
                axis.set(xlabel="client, by class", ylabel="client, by class")
                for side in (axis.xaxis, axis.yaxis):
                    side.get_major_locator().set_params(integer=True)
            label = "distance" if measure == "distances" else "cosine"
            figure.colorbar(drawn, ax=axes, shrink=0.8, label=label)
            yield f"descriptions-{measure}{name}", figure


def _square_panels(count: int) -> tuple[Any, list[Any]]:
    """Panels of square maps. One map fills a column: on a page, most of the width is empty."""
    if count > 1:
        return panels(count)
    figure, axis = canvas(COLUMN, 0.85 * COLUMN)
    return figure, [axis]


def recorded_heat_maps(document: Document) -> Iterator[NamedFigure]:
    """Recorded metrics by client or entry and round: one panel for each method, on one scale."""
    for key in dict.fromkeys(one["key"] for one in document["heatmaps"]):
        found = [one for one in document["heatmaps"] if one["key"] == key]
        for name, items in comparable(found):
            if any(known(row) for one in items for row in one["values"]):
                draw = _matrix if "columns" in items[0] else _heat_map
                yield f"{file_name(key)}{name}", draw(items, document["recorded"][key])


def _matrix(items: Sequence[Document], labels: Document) -> Any:
    """Square matrices after the last round, one panel for each method, on one scale."""
    import numpy as np

    tables = [np.array([numbers(row) for row in one["values"]]) for one in items]
    low, high = _least(tables), -_least([-one for one in tables])
    figure, axes = _square_panels(len(items))
    for axis, one, values in zip(axes, items, tables, strict=True):
        drawn = axis.imshow(
            np.ma.masked_invalid(values), interpolation="nearest", **cell_colors(low, high)
        )
        mark_gaps(axis)
        step = -(-len(values) // 10)
        axis.set_xticks(range(0, len(values), step), one["columns"][::step])
        axis.set_yticks(range(0, len(values), step), one["rows"][::step])
        axis.set_title(in_lines(one["label"], LEGEND), loc="left")
        name = plain(labels["entries"] or "entry")
        axis.set(xlabel=f"{name}, round {one['round'][0]}", ylabel=name)
    figure.colorbar(drawn, ax=axes, shrink=0.8, label=in_lines(labels["title"], 30))
    return figure


def _heat_map(items: Sequence[Document], labels: Document) -> Any:
    import numpy as np

    factor = 100.0 if labels["unit"] == "%" else 1.0
    tables = [np.array([numbers(row, factor) for row in one["values"]]) for one in items]
    low, high = (0.0, 100.0) if factor > 1 else (_least(tables), -_least([-one for one in tables]))
    figure, axes = canvas(PAGE, 2.0 * len(items) + 0.4, nrows=len(items), squeeze=False)
    for axis, one, values in zip(axes.flat, items, tables, strict=True):
        drawn = axis.pcolormesh(
            _edges(one["round"]),
            np.arange(len(values) + 1) - 0.5,
            np.ma.masked_invalid(values),
            rasterized=True,
            **cell_colors(low, high),
        )
        step = -(-len(values) // 10)
        axis.set_yticks(range(0, len(values), step), one["rows"][::step])
        axis.invert_yaxis()
        axis.xaxis.get_major_locator().set_params(integer=True)
        mark_gaps(axis)
        axis.set_title(in_lines(one["label"], 2 * LEGEND), loc="left")
        axis.set(xlabel="round", ylabel=plain(labels["entries"] or "entry"))
    title = labels["title"] + (", %" if factor > 1 else "")
    figure.colorbar(drawn, ax=axes, label=in_lines(title, 30))
    return figure


def _edges(rounds: Sequence[int]) -> list[float]:
    """Edges of the cells of rounds: half-way to the neighbours.

    >>> _edges([1, 2, 5]), _edges([3])
    ([0.5, 1.5, 3.5, 6.5], [2.5, 3.5])
    """
    inner = [(a + b) / 2 for a, b in pairwise(rounds)]
    if not inner:
        return [rounds[0] - 0.5, rounds[0] + 0.5]
    return [2 * rounds[0] - inner[0], *inner, 2 * rounds[-1] - inner[-1]]


def _least(tables: Sequence[Any]) -> float:
    import numpy as np

    return float(min(np.nanmin(one) for one in tables if not np.isnan(one).all()))


def file_name(key: str) -> str:
    """A key as part of a file's name.

    >>> file_name("features(everyone=True)")
    'features-everyone-True'
    """
    return re.sub(r"[^A-Za-z0-9_]+", "-", key).strip("-")


def _mean(values: Sequence[float | None]) -> float | None:
    there = known(values)
    return sum(there) / len(there) if there else None


def _label(one: Document) -> str:
    return in_lines(one["label"], LEGEND)
