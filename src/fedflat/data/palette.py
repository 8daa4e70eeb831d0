"""Colours of classes in masks: those of Cityscapes where names match, other hues elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from colorsys import hsv_to_rgb

import numpy as np
from numpy.typing import NDArray

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
