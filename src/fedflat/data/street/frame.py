"""Buffers of images in progress: class, depth, unlit colour, orientation and glow per pixel.

Colours are the first axis, as in (3, rows, columns), because NumPy is much faster on long rows than
on triples.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street.camera import Array, Index, Shots

CLASSES = ("road", "pavement", "building", "pole", "sign", "green", "sky", "person", "car")
"""The classes; "green" is trees and lawns."""
ROAD, PAVEMENT, BUILDING, POLE, BOARD, GREEN, SKY, HUMAN, CAR = range(len(CLASSES))
IGNORED = 255
"""The label of the vehicle's own bonnet."""
UP, WEST, EAST, SOUTH, NORTH, ROUND = range(6)
"""Orientations of surfaces."""
TILE = 256


class StreetFrame:
    """The buffers of a batch of images; initially all sky at infinite depth.

    ``mask``, ``depth``, ``facing`` and ``glow`` are flat: shot by shot and row by row. ``colour``
    has three such rows. An index into them is a pixel.
    """

    def __init__(self, shots: Shots, lamps: bool) -> None:
        size = shots.count * shots.rows * shots.width
        self.shots, self.lamps = shots, lamps
        self.mask = np.full(size, SKY, np.uint8)
        self.depth = np.full(size, 1e4, np.float32)
        self.colour = np.zeros((3, size), np.float32)
        self.facing = np.full(size, ROUND, np.uint8)
        self.glow = np.zeros(size, np.float32) if lamps else None
        self.lights: list[tuple[Array, ...]] = []
        """Visible lamps: shot, column, row, radius in pixels, and RGB."""

    def lines(self, place: Index) -> tuple[Index, Index, Index]:
        """For pixels: the shot, the row over all shots, and the column over all shots."""
        line = place // self.shots.width
        shot = line // self.shots.rows
        return shot, line, place + (shot - line) * self.shots.width

    def pixel(self, place: Index) -> tuple[Index, Index]:
        """Row and column of pixels in their shots."""
        line = place // self.shots.width
        return line - line // self.shots.rows * self.shots.rows, place - line * self.shots.width

    def paint(self, place: Index, colour: Array) -> None:
        """Set the colour of pixels; of several colours for one pixel, the last wins."""
        for plane, part in zip(self.colour, colour, strict=True):
            plane[place] = part

    def shine(
        self, shot: Index, column: Array, row: Array, depth: Array, size: Array, colour: Array
    ) -> None:
        """Add lamps that are in the image and not hidden."""
        rows, width = self.shots.rows, self.shots.width
        inside = ((row >= 0) & (row < rows) & (column >= 0) & (column < width)).nonzero()[0]
        parts = (shot, column, row, np.maximum(size, 1.2), *colour, depth)
        shot, column, row, *rest, depth = (part.take(inside) for part in parts)
        place = (shot * rows + row.astype(np.int64)) * width + column.astype(np.int64)
        free = self.depth.take(place) >= (depth - 0.05).astype(np.float32)
        self.lights.append(tuple(part.compress(free) for part in (shot, column, row, *rest)))


@cache
def noise() -> Array:
    """A seamless tile of cloud noise from 0 to 1, always the same."""
    rng = np.random.default_rng(7)
    total = np.zeros((TILE, TILE))
    for octave in range(2, 8):
        cells = 1 << octave
        points = rng.random((cells, cells))
        points = np.concatenate([points, points[:1]], 0)
        points = np.concatenate([points, points[:, :1]], 1)
        at = np.arange(TILE) * cells / TILE
        whole, part = at.astype(int), at % 1
        part = part * part * (3 - 2 * part)
        rows = points[whole] * (1 - part[:, None]) + points[whole + 1] * part[:, None]
        total += (rows[:, whole] * (1 - part) + rows[:, whole + 1] * part) / 1.7**octave
    total -= total.min()
    return np.asarray(total / total.max(), np.float32)


def rough(across: Array, along: Array) -> Array:
    """The cloud noise at any coordinates; the unit is a pixel of the tile."""
    row, column = along.astype(np.int32) & (TILE - 1), across.astype(np.int32) & (TILE - 1)
    return noise().take(row * TILE + column)


def pseudorandom(*keys: NDArray[np.integer]) -> Array:
    """A pseudorandom number from 0 to 1 that depends on the integers ``keys`` only."""
    total = np.zeros((), np.uint32)
    for factor, key in zip((0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D), keys, strict=False):
        total = (total ^ (key.astype(np.uint32) * np.uint32(factor))) * np.uint32(0x27D4EB2F)
        total ^= total >> np.uint32(15)
    return (total >> np.uint32(8)).astype(np.float32) * np.float32(1 / (1 << 24))
