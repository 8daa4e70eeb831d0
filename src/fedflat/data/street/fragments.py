"""Pixels of many small objects at once, in one long list instead of a loop.

Each object covers a rectangle of the image. All pixels of all rectangles are computed together. If
several fall on one pixel, the nearest is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street.camera import Array, Index, Shots
from fedflat.data.street.frame import StreetFrame

NOTHING = 254
"""The class of pixels in an object's rectangle that the object does not cover."""


@dataclass(frozen=True)
class Fragments:
    """Pixels of rectangles, one rectangle after the other: object, and index in the frame."""

    owner: Index
    place: Index

    def __len__(self) -> int:
        return len(self.owner)

    def only(self, chosen: NDArray[np.bool_]) -> Fragments:
        """A selection of them."""
        return Fragments(self.owner.compress(chosen), self.place.compress(chosen))


@dataclass(frozen=True)
class Painted:
    """Fragments with class, depth and colour."""

    place: Index
    depth: Array
    kind: NDArray[np.uint8] | int
    colour: Array
    facing: NDArray[np.uint8] | int


def cut(
    shots: Shots, shot: Index, left: Array, right: Array, top: Array, bottom: Array
) -> Fragments:
    """The pixels of rectangles in their shots, clipped to the image."""
    rows, width = shots.rows, shots.width
    first, last = left.clip(0, width).astype(np.int64), (right + 1).clip(0, width).astype(np.int64)
    high, low = top.clip(0, rows).astype(np.int64), (bottom + 1).clip(0, rows).astype(np.int64)
    wide, tall = np.maximum(last - first, 0), np.maximum(low - high, 0)
    starts = steps(
        (shot * rows + high) * width + first, tall, width
    )  # for each row of each rectangle
    return Fragments(np.arange(len(wide)).repeat(wide * tall), steps(starts, wide.repeat(tall)))


def steps(start: Index, count: Index, step: int = 1) -> Index:
    """For each start, ``count`` numbers that are ``step`` apart, in one list.

    >>> steps(np.array([7, 0, 1]), np.array([2, 0, 3]), 10)
    array([ 7, 17,  1, 11, 21])
    """
    end = count.cumsum()
    total = int(end[-1]) if len(end) else 0
    return np.asarray(
        (start - step * (end - count)).repeat(count) + np.arange(0, step * total, step)
    )


def lay(frame: StreetFrame, layer: Painted) -> None:
    """Put fragments into an image where they are nearest; of equally near ones, the last wins."""
    nearest = frame.depth.astype(layer.depth.dtype)
    np.minimum.at(nearest, layer.place, layer.depth)
    visible = (layer.depth == nearest.take(layer.place)).nonzero()[0]
    place = layer.place[visible]
    frame.depth[place] = layer.depth[visible]
    for buffer, values in ((frame.mask, layer.kind), (frame.facing, layer.facing)):
        buffer[place] = values if isinstance(values, int) else values[visible]
    frame.paint(place, layer.colour.take(visible, 1))
    if frame.glow is not None:
        frame.glow[place] = 0


def darken(frame: StreetFrame, fragments: Fragments, amount: Array) -> None:
    """Remove a share of the light from pixels; of several shares for one pixel, the last wins."""
    place, left = fragments.place, 1 - amount
    for plane in frame.colour:
        plane[place] *= left
