"""Pixels of many small things at once: a long list instead of a loop over the things.

Each thing covers a rectangle of the picture. All pixels of all rectangles are worked out together; of those that fall
on one pixel the nearest stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street.camera import Array
from fedflat.data.street.frame import Frame

NOTHING = 254
"""The class of a pixel that a thing's rectangle has, and the thing has not."""


@dataclass(frozen=True)
class Fragments:
    """Pixels of rectangles: whose, which row and column, and which place in the picture read row by row."""

    owner: NDArray[np.int64]
    row: NDArray[np.int64]
    column: NDArray[np.int64]
    place: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.owner)

    def only(self, chosen: NDArray[np.bool_]) -> Fragments:
        """Some of them."""
        kept = np.flatnonzero(chosen)
        return Fragments(self.owner[kept], self.row[kept], self.column[kept], self.place[kept])


@dataclass(frozen=True)
class Painted:
    """Fragments with what is seen there."""

    place: NDArray[np.int64]
    depth: Array
    kind: NDArray[np.uint8]
    colour: Array
    facing: NDArray[np.uint8]


def cut(left: Array, right: Array, top: Array, bottom: Array, shape: tuple[int, ...]) -> Fragments:
    """The pixels of rectangles, as far as they are in a picture of this shape."""
    rows, width = shape[:2]
    first, last = np.clip(left, 0, width).astype(np.int64), np.clip(right + 1, 0, width).astype(np.int64)
    high, low = np.clip(top, 0, rows).astype(np.int64), np.clip(bottom + 1, 0, rows).astype(np.int64)
    wide, tall = np.maximum(last - first, 0), np.maximum(low - high, 0)
    whose, down = _repeated(tall)  # row by row, then pixel by pixel
    span, out = _repeated(wide[whose])
    row, column = (high[whose] + down)[span], first[whose][span] + out
    return Fragments(whose[span], row, column, row * width + column)


def _repeated(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each place as often as its count says, and how often it was there before.

    >>> _repeated(np.array([2, 0, 3]))
    (array([0, 0, 2, 2, 2]), array([0, 1, 0, 1, 2]))
    """
    place = np.repeat(np.arange(len(counts)), counts)
    return place, np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)


def lay(frame: Frame, layers: list[Painted]) -> None:
    """Put fragments into a picture, from far to near: what is put last on a pixel stays."""
    parts = [[getattr(layer, name) for layer in layers] for name in Painted.__dataclass_fields__]
    place, depth, kind, colour, facing = (np.concatenate(part) for part in parts)
    order = np.argsort(-depth, kind="stable")
    order = order[depth[order] < frame.depth.ravel()[place[order]]]
    last = np.empty(frame.mask.size, np.int64)
    last[place[order]] = order
    order = order[last[place[order]] == order]
    place = place[order]
    frame.mask.ravel()[place] = kind[order]
    frame.depth.ravel()[place] = depth[order]
    frame.facing.ravel()[place] = facing[order]
    frame.colour.reshape(-1, 3)[place] = colour[order]
    if frame.glow is not None:
        frame.glow.reshape(-1, 3)[place] = 0


def darken(frame: Frame, fragments: Fragments, amount: Array) -> None:
    """Take this share of the light from pixels."""
    frame.colour.reshape(-1, 3)[fragments.place] *= (1 - amount)[:, None]
