"""Pixels of many small things at once: a long list instead of a loop over the things.

Each thing covers a rectangle of the picture. All pixels of all rectangles are worked out together;
of those that fall on one pixel the nearest stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street.camera import Array, Index, Shots
from fedflat.data.street.frame import StreetFrame

NOTHING = 254
"""The class of a pixel that a thing's rectangle has, and the thing has not."""


@dataclass(frozen=True)
class Fragments:
    """Pixels of rectangles, one rectangle after the other: whose, and which place in the frame."""

    owner: Index
    place: Index

    def __len__(self) -> int:
        return len(self.owner)

    def only(self, chosen: NDArray[np.bool_]) -> Fragments:
        """Some of them."""
        return Fragments(self.owner.compress(chosen), self.place.compress(chosen))


@dataclass(frozen=True)
class Painted:
    """Fragments with what is seen there."""

    place: Index
    depth: Array
    kind: NDArray[np.uint8] | int
    colour: Array
    facing: NDArray[np.uint8] | int


def cut(
    shots: Shots, shot: Index, left: Array, right: Array, top: Array, bottom: Array
) -> Fragments:
    """The pixels of rectangles in their shots, as far as they are in the picture."""
    rows, width = shots.rows, shots.width
    first, last = left.clip(0, width).astype(np.int64), (right + 1).clip(0, width).astype(np.int64)
    high, low = top.clip(0, rows).astype(np.int64), (bottom + 1).clip(0, rows).astype(np.int64)
    wide, tall = np.maximum(last - first, 0), np.maximum(low - high, 0)
    starts = steps(
        (shot * rows + high) * width + first, tall, width
    )  # of each row of each rectangle
    return Fragments(np.arange(len(wide)).repeat(wide * tall), steps(starts, wide.repeat(tall)))


def steps(start: Index, count: Index, step: int = 1) -> Index:
    """From each start so many numbers, a step apart, in one list.

    >>> steps(np.array([7, 0, 1]), np.array([2, 0, 3]), 10)
    array([ 7, 17,  1, 11, 21])
    """
    end = count.cumsum()
    total = int(end[-1]) if len(end) else 0
    return np.asarray(
        (start - step * (end - count)).repeat(count) + np.arange(0, step * total, step)
    )


def lay(frame: StreetFrame, layer: Painted) -> None:
    """Put fragments into a picture, where they are before all that is there; of two as near the
    last stays."""
    nearest = frame.depth.astype(layer.depth.dtype)
    np.minimum.at(nearest, layer.place, layer.depth)
    seen = (layer.depth == nearest.take(layer.place)).nonzero()[0]
    place = layer.place[seen]
    frame.depth[place] = layer.depth[seen]
    for buffer, given in ((frame.mask, layer.kind), (frame.facing, layer.facing)):
        buffer[place] = given if isinstance(given, int) else given[seen]
    frame.paint(place, layer.colour.take(seen, 1))
    if frame.glow is not None:
        frame.glow[place] = 0


def darken(frame: StreetFrame, fragments: Fragments, amount: Array) -> None:
    """Take this share of the light from pixels; of several shares for one pixel the last."""
    place, left = fragments.place, 1 - amount
    for plane in frame.colour:
        plane[place] *= left
