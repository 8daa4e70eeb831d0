"""Figures of clients: their classes, their groups, their styles, and the sharpness of their
models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fedflat.data.figures import partition_figure
from fedflat.plot_style import COLUMN, LEGEND, PAGE, in_lines, legend, look
from fedflat.report.collect import Document
from fedflat.report.figure_style import NamedFigure, canvas, comparable, numbers, panels, wide


def partitions(document: Document) -> Iterator[NamedFigure]:
    """Examples of each class at each client."""
    for one in document["partition"]:
        board = document["methods"][one["method"]]["board"]
        figure = partition_figure(one["counts"], one.get("names") or (), wide(PAGE))
        yield f"partition-seed{one['seed']}" + (f"-{board + 1}" if board else ""), figure


def local_global_dots(document: Document) -> Iterator[NamedFigure]:
    """The largest eigenvalue of clients' models on their own data and on everyone's data."""
    for name, items in comparable(document["local_global"]):
        figure, axis = canvas(COLUMN, 2.4)
        for one in items:
            own, everyone = (
                numbers([client[side] for client in one["clients"]]) for side in ("local", "global")
            )
            color, label = look(one["look"])["color"], in_lines(one["label"], LEGEND)
            axis.plot(own, everyone, "o", color=color, markersize=3.5, label=label)
        low, high = (end(*axis.get_xlim(), *axis.get_ylim()) for end in (min, max))
        axis.plot([low, high], [low, high], color="#999999", linewidth=0.6, zorder=0)
        axis.set(xlabel="on the client's own data", ylabel="on everyone's data")
        axis.set_title("largest eigenvalue of clients' models", loc="left")
        legend(figure)
        yield f"local-global{name}", figure


def group_maps(document: Document) -> Iterator[NamedFigure]:
    """Shares of the classes at clients in the order of their groups, and in the groups."""
    for place, one in enumerate(document["groups"]):
        if not one.get("before"):
            continue
        figure, axes = canvas(PAGE, 2.4, nrows=2, squeeze=False)
        for axis, rows, what in zip(
            axes.flat, (one["before"], one["after"]), ("client, by group", "group"), strict=True
        ):
            drawn = axis.imshow(
                _shares(rows),
                aspect="auto",
                cmap="Blues",
                vmin=0,
                vmax=100,
                interpolation="nearest",
            )
            axis.set(xlabel=what, ylabel="class")
        figure.colorbar(drawn, ax=axes, label="examples, %")
        yield "groups" + (f"-{place + 1}" if place else ""), figure


def _shares(rows: Sequence[Sequence[float]]) -> Any:
    """The share of each class in per cent, one row a class."""
    import numpy as np

    counts = np.array(rows, dtype=float)
    return 100 * (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)).T


def style_maps(document: Document) -> Iterator[NamedFigure]:
    """The styles of the clients' images along their two main directions, coloured by cluster."""
    for name, items in comparable(document["styles"]):
        figure, axes = panels(len(items), 0.8)
        for axis, one in zip(axes, items, strict=True):
            for cluster in sorted({client["cluster"] for client in one["clients"]}):
                own = [client for client in one["clients"] if client["cluster"] == cluster]
                x, y = (numbers([client[side] for client in own]) for side in ("x", "y"))
                color = look(cluster)["color"]
                axis.plot(x, y, "o", color=color, markersize=3.5, label=f"cluster {cluster}")
            axis.set(xlabel="first direction", ylabel="second direction")
        legend(figure)
        yield f"styles{name}", figure
