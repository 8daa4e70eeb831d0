"""The picture of a partition: one column a client, one row a class, as papers draw it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedflat.plot_style import COLORS, PAGE, pyplot

BUBBLES = 60
"""Most clients that are drawn as a row of bubbles; more are a heat map."""
NAMED = 40
"""Most classes whose names are drawn."""


def partition_figure(
    counts: Sequence[Sequence[float]],
    names: Sequence[str] = (),
    width: float = PAGE,
    images: Sequence[tuple[int, Any]] = (),
    clients: Sequence[str] = (),
) -> Any:
    """A figure of how many examples of each class each client holds.

    counts
        One row a client, one column a class.
    names
        The names of the classes; empty: their numbers.
    width
        The width in inches.
    images
        Sample images below the matrix, each with its class.
    clients
        The names of the clients; empty: their numbers.
    """
    import numpy as np

    table = np.array(counts, dtype=float).T
    classes, population = table.shape
    height = 0.75 + min(4.5, 0.15 * max(classes, 6))
    shown = [str(name).replace("$", r"\$") for name in names] or [str(i) for i in range(classes)]
    figure = pyplot().figure(figsize=(width, height + bool(images)), layout="constrained")
    rows = figure.add_gridspec(2 if images else 1, 1, height_ratios=[height, 1] if images else [1])
    axis = figure.add_subplot(rows[0])
    _samples(figure, rows[-1], images, shown)
    if population <= BUBBLES and classes > 1:
        y, x = np.nonzero(table)
        room = min(72 * (width - 1) / population, 72 * (height - 0.7) / classes)
        sizes = (0.95 * room) ** 2 * table[y, x] / max(table.max(), 1)
        axis.scatter(x, y, s=sizes, color=COLORS[0], linewidths=0)
        axis.set(xlim=(-0.7, population - 0.3), ylim=(classes - 0.4, -0.6))
        axis.set_title(
            f"area: examples, at most {table.max():,.0f} of a class at a client", loc="right"
        )
    else:
        drawn = axis.imshow(table, aspect="auto", cmap="Blues", interpolation="nearest")
        figure.colorbar(drawn, ax=axis, label="examples")
    axis.set(xlabel="client", ylabel="class" if classes > 1 else "")
    axis.xaxis.get_major_locator().set_params(integer=True)
    if clients and population <= NAMED:
        turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        axis.set_xticks(range(population), [str(c).replace("$", r"\$") for c in clients], **turned)
    step = -(-classes // NAMED)
    axis.set_yticks(range(0, classes, step), shown[::step])
    return figure


def _samples(
    figure: Any, place: Any, images: Sequence[tuple[int, Any]], names: Sequence[str]
) -> None:
    """Sample images in a row, each below the name of its class."""
    for at, (kind, image) in enumerate(images):
        axis = figure.add_subplot(place.subgridspec(1, len(images))[at])
        grey = image.shape[-1] == 1
        axis.imshow(image[..., 0] if grey else image, cmap="gray", interpolation="nearest")
        axis.set_axis_off()
        axis.set_title(names[kind], fontsize=7)
