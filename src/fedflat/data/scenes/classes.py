"""Class ids in the masks of published sets, and the lists of classes that are learnt.

A mask holds one id per pixel. `Ids` maps the ids of one set to indices in a list of classes. Ids
that are known but not learnt become `IGNORE`; an id that the set does not have is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fedflat.errors import choice

IGNORE = 255
UNKNOWN = -1

CITYSCAPES = (
    "road",
    "sidewalk",
    "building",
    "wall",
    "fence",
    "pole",
    "traffic light",
    "traffic sign",
    "vegetation",
    "terrain",
    "sky",
    "person",
    "rider",
    "car",
    "truck",
    "bus",
    "train",
    "motorcycle",
    "bicycle",
)
"""The 19 classes of Cityscapes, in the order of their train ids."""
LISTS: Mapping[str, tuple[str, ...]] = {
    "cityscapes": CITYSCAPES,
    "idda": tuple(name for name in CITYSCAPES if name not in ("truck", "bus", "train")),
    "crosscity": tuple(
        name
        for name in CITYSCAPES
        if name not in ("wall", "fence", "pole", "terrain", "truck", "train")
    ),
}
"""Lists of learnt classes, by the set that defines them."""
CITYSCAPES_IDS = dict(
    zip(
        (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33),
        CITYSCAPES,
        strict=True,
    )
)
"""The class of each label id of Cityscapes, GTA5 and CrossCity (0 to 34); others are ignored."""
IDDA_IDS = {
    1: "building",
    2: "fence",
    4: "person",
    5: "pole",
    6: "road",
    7: "road",
    8: "sidewalk",
    9: "vegetation",
    10: "car",
    11: "wall",
    12: "traffic sign",
    13: "traffic light",
    16: "bicycle",
    17: "motorcycle",
    18: "rider",
    19: "terrain",
    20: "sky",
}
"""The class of each id of IDDA; the ids go from 0 to 23."""
MAPILLARY_IDS = {
    2: "sidewalk",
    3: "fence",
    6: "wall",
    7: "sidewalk",
    9: "sidewalk",
    11: "sidewalk",
    13: "road",
    14: "road",
    15: "sidewalk",
    17: "building",
    19: "person",
    20: "rider",
    21: "rider",
    22: "rider",
    24: "road",
    26: "terrain",
    27: "sky",
    29: "terrain",
    30: "vegetation",
    43: "road",
    44: "pole",
    45: "pole",
    46: "pole",
    47: "pole",
    48: "traffic light",
    50: "traffic sign",
    52: "bicycle",
    54: "bus",
    55: "car",
    57: "motorcycle",
    58: "train",
    61: "truck",
}
"""The class of each id of Mapillary Vistas 1.2 (0 to 65), as in LADD."""


@dataclass(frozen=True)
class Ids:
    """A map from the ids in the masks of a set to indices in a list of classes."""

    table: tuple[int, ...]
    """For each byte its class, `IGNORE`, or `UNKNOWN`."""
    palette: bool = False
    """True if the masks are palette images whose palette indices are the ids."""
    same_size: bool = True
    """True if a mask must have the size of its image; if not, it is resized."""

    @classmethod
    def of(
        cls,
        names: Mapping[int, str],
        known: Iterable[int],
        classes: str,
        *,
        palette: bool = False,
        same_size: bool = True,
    ) -> Ids:
        """The map for ids with these names, out of all ``known`` ones, to the list ``classes``.

        >>> ids = Ids.of(CITYSCAPES_IDS, range(35), "crosscity")
        >>> [ids.table[i] for i in (7, 12, 19, 200)]
        [0, 255, 3, -1]
        """
        wanted = LISTS[classes]
        table = [UNKNOWN] * 256
        for i in known:
            table[i] = wanted.index(names[i]) if names.get(i) in wanted else IGNORE
        return cls(tuple(table), palette, same_size)


def check_classes(owner: str, classes: str) -> None:
    """Refuse an unknown list of classes."""
    choice(owner, "classes", classes, LISTS)
