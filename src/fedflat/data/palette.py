"""Colours of classes in masks, those of Cityscapes where names match; sample images above their masks."""

from __future__ import annotations

from collections.abc import Sequence
from colorsys import hsv_to_rgb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedflat.plot_style import PAGE, plain

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
