"""A picture in the making: for each pixel its class, depth, colour without light, which way it
faces, what it glows.

Colours come first, as in (3, rows, columns): numpy works on long rows of numbers far more quickly
than on triples.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street.camera import Array, Index, Shots

CLASSES = ("road", "pavement", "building", "pole", "sign", "green", "sky", "person", "car")
"""What is told apart; "green" is trees and lawns."""
ROAD, PAVEMENT, BUILDING, POLE, BOARD, GREEN, SKY, HUMAN, CAR = range(len(CLASSES))
IGNORED = 255
"""The own bonnet."""
UP, WEST, EAST, SOUTH, NORTH, ROUND = range(6)
"""Which way a surface faces."""
TILE = 256


class StreetFrame:
    """The buffers of pictures; at first all sky, infinitely far.

    ``mask``, ``depth``, ``facing`` and ``glow`` are read shot by shot and row by row, as one long
    row; ``colour`` has three of them. A place in it is a pixel.
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
        """Shot, column, row, radius in pixels, red, green and blue of lamps in sight."""

    def lines(self, place: Index) -> tuple[Index, Index, Index]:
        """Of pixels: which shot, which row of all shots, which column of all shots."""
        line = place // self.shots.width
        shot = line // self.shots.rows
        return shot, line, place + (shot - line) * self.shots.width

    def pixel(self, place: Index) -> tuple[Index, Index]:
        """Row and column of pixels in their shots."""
        line = place // self.shots.width
        return line - line // self.shots.rows * self.shots.rows, place - line * self.shots.width

    def paint(self, place: Index, colour: Array) -> None:
        """Give pixels a colour; of several for one pixel the last."""
        for plane, part in zip(self.colour, colour, strict=True):
            plane[place] = part

    def shine(
        self, shot: Index, column: Array, row: Array, depth: Array, size: Array, colour: Array
    ) -> None:
        """Note lamps, where they are in the picture and nothing stands before them."""
        rows, width = self.shots.rows, self.shots.width
        inside = ((row >= 0) & (row < rows) & (column >= 0) & (column < width)).nonzero()[0]
        parts = (shot, column, row, np.maximum(size, 1.2), *colour, depth)
        shot, column, row, *rest, depth = (part.take(inside) for part in parts)
        place = (shot * rows + row.astype(np.int64)) * width + column.astype(np.int64)
        free = self.depth.take(place) >= (depth - 0.05).astype(np.float32)
        self.lights.append(tuple(part.compress(free) for part in (shot, column, row, *rest)))


@cache
def noise() -> Array:
    """A tile of clouds from 0 to 1 that can be laid end to end; the same always."""
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
    """The tile of clouds at any coordinates; a unit is a pixel of the tile."""
    row, column = along.astype(np.int32) & (TILE - 1), across.astype(np.int32) & (TILE - 1)
    return noise().take(row * TILE + column)


def hashed(*keys: NDArray[np.integer]) -> Array:
    """A number from 0 to 1 that looks random and depends on whole numbers only."""
    total = np.zeros((), np.uint32)
    for factor, key in zip((0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D), keys, strict=False):
        total = (total ^ (key.astype(np.uint32) * np.uint32(factor))) * np.uint32(0x27D4EB2F)
        total ^= total >> np.uint32(15)
    return (total >> np.uint32(8)).astype(np.float32) * np.float32(1 / (1 << 24))
