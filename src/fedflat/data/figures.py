"""Pictures of clients: their classes, one column a client, or how many examples they have and where
from; colours of classes in masks, those of Cityscapes where names match.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from colorsys import hsv_to_rgb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedflat.plot_style import COLORS, PAGE, plain, pyplot

IGNORED = (0, 0, 0)
"""Colour of ignored pixels."""
COLOURS = {
    "road": (128, 64, 128),
    "sidewalk": (244, 35, 232),
    "building": (70, 70, 70),
    "wall": (102, 102, 156),
    "fence": (190, 153, 153),
    "pole": (153, 153, 153),
    "traffic light": (250, 170, 30),
    "traffic sign": (220, 220, 0),
    "vegetation": (107, 142, 35),
    "terrain": (152, 251, 152),
    "sky": (70, 130, 180),
    "person": (220, 20, 60),
    "rider": (255, 0, 0),
    "car": (0, 0, 142),
    "truck": (0, 0, 70),
    "bus": (0, 60, 100),
    "train": (0, 80, 100),
    "motorcycle": (0, 0, 230),
    "bicycle": (119, 11, 32),
}
ALIKE = {
    "pavement": "sidewalk",
    "sign": "traffic sign",
    "green": "vegetation",
    "tree": "vegetation",
    "pedestrian": "person",
    "bicyclist": "rider",
}
"""Names of the same classes in other sets."""
GOLDEN = 0.618033988749895
"""Step of the hue (the golden ratio), which keeps successive hues apart."""


def palette(names: Sequence[str], count: int) -> NDArray[np.uint8]:
    """The colours ``(256, 3)`` of ``count`` classes; unused entries are black.

    >>> palette(["road", "pavement"], 2)[:3].tolist()
    [[128, 64, 128], [244, 35, 232], [0, 0, 0]]
    """
    colours = np.zeros((256, 3), np.uint8)
    colours[:] = IGNORED
    for place in range(min(count, 255)):
        name = names[place] if place < len(names) else ""
        known = COLOURS.get(ALIKE.get(name, name))
        wheel = [round(255 * part) for part in hsv_to_rgb(place * GOLDEN % 1, 0.65, 0.9)]
        colours[place] = wheel if known is None else known
    return colours


class MaskSample(NamedTuple):
    """An image of a client and its mask."""

    client: str
    image: Any
    """Height, width, channels."""
    mask: Any
    """The class of each pixel; 255 is ignored."""


def masks_height(samples: Sequence[MaskSample]) -> float:
    """The height of the samples in a page wide, in inches."""
    tall, wide = samples[0].mask.shape
    return float(0.6 + 2 * PAGE / len(samples) * tall / wide)


def draw_masks(part: Any, samples: Sequence[MaskSample], names: Sequence[str]) -> None:
    """Draw samples and a legend of the classes in them into a part of a figure.

    part
        A figure, or a part of one.
    samples
        One sample or more.
    names
        The names of the classes.
    """
    import numpy as np

    colors = palette(names, len(names))
    axes = part.subplots(2, len(samples), squeeze=False)
    for (top, bottom), sample in zip(axes.T, samples, strict=True):
        top.imshow(sample.image)
        top.set_title(plain(sample.client), fontsize=7)
        bottom.imshow(colors[sample.mask])
        top.set_axis_off()
        bottom.set_axis_off()
    there = np.unique(np.concatenate([sample.mask.ravel() for sample in samples]))
    keys = [
        axes[0, 0].scatter([], [], marker="s", color=colors[kind] / 255, label=plain(names[kind]))
        for kind in there[there < len(names)]
    ]
    part.legend(handles=keys, loc="outside lower left", ncols=10, handletextpad=0, columnspacing=1)


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
