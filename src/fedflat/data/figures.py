"""Pictures of clients: their classes, one column a client; or how many examples and where from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fedflat.data.palette import MaskSample, draw_masks, masks_height
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


BINS = 20
MOST_VALUES = 30
"""Most values of a facet that are drawn; the most frequent ones."""


def sizes_figure(
    sizes: Sequence[int],
    facets: Mapping[str, Sequence[str]],
    samples: Sequence[MaskSample] = (),
    names: Sequence[str] = (),
) -> Any:
    """Return a histogram of examples per client, and for each facet the clients of each value.

    sizes
        The number of examples of each client.
    facets
        For each facet its value at each client, such as the city.
    samples
        Images and masks below.
    names
        The names of the classes of the masks.
    """
    counts = {
        facet: Counter(values).most_common(MOST_VALUES)[::-1]
        for facet, values in facets.items()
        if len(set(values)) > 1
    }
    rows = max([8, *map(len, counts.values())])
    heights = [0.8 + 0.16 * rows, *([masks_height(samples)] if samples else [])]
    figure = pyplot().figure(figsize=(PAGE, sum(heights)), layout="constrained")
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    axes = parts[0].subplots(1, 1 + len(counts), squeeze=False)
    if samples:
        draw_masks(parts[1], samples, names)
    first, *others = axes[0]
    first.hist(sizes, bins=min(BINS, max(sizes) - min(sizes) + 1), color=COLORS[0])
    first.set(xlabel="examples of a client", ylabel="clients")
    for axis, (facet, pairs) in zip(others, counts.items(), strict=True):
        axis.barh(range(len(pairs)), [count for _, count in pairs], color=COLORS[0])
        axis.set_yticks(range(len(pairs)), [value.replace("$", r"\$") for value, _ in pairs])
        axis.set(xlabel="clients", title=facet)
    for scale in (first.yaxis, *(axis.xaxis for axis in axes[0])):
        scale.get_major_locator().set_params(integer=True)
    return figure
