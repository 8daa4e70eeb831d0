"""A picture in the making: for each pixel its class, depth, colour without light, which way it faces, what it glows.

Colours come first, as in (3, rows, columns): numpy works on long rows of numbers far more quickly than on triples.
"""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street.camera import Array, Camera

CLASSES = ("road", "pavement", "building", "pole", "sign", "green", "sky", "person", "car")
"""What is told apart; "green" is trees and lawns."""
ROAD, PAVEMENT, BUILDING, POLE, BOARD, GREEN, SKY, HUMAN, CAR = range(len(CLASSES))
IGNORED = 255
"""The own bonnet."""
UP, WEST, EAST, SOUTH, NORTH, ROUND = range(6)
"""Which way a surface faces."""
TILE = 256


class Frame:
    """The buffers of one picture; at first all sky, infinitely far.

    ``mask``, ``depth``, ``facing`` and ``glow`` are read row by row, in one long row; ``colour`` has three of them.
    """

    def __init__(self, camera: Camera, lamps: bool) -> None:
        size = camera.rows * camera.width
        self.camera, self.lamps = camera, lamps
        self.mask = np.full(size, SKY, np.uint8)
        self.depth = np.full(size, 1e4, np.float32)
        self.colour = np.zeros((3, size), np.float32)
        self.facing = np.full(size, ROUND, np.uint8)
        self.glow = np.zeros(size, np.float32) if lamps else None
        self.row, self.column = _raster(camera.rows, camera.width)
        self.lights: list[tuple[float, float, float, tuple[float, float, float]]] = []
        """Column, row, radius in pixels and colour of lamps in sight."""

    def paint(self, place: NDArray[np.int64], colour: Array) -> None:
        """Give pixels a colour; of several for one pixel the last."""
        for plane, part in zip(self.colour, colour, strict=True):
            plane[place] = part

    def shine(self, column: float, row: float, depth: float, size: float, colour: tuple[float, float, float]) -> None:
        """Note a lamp, if it is in the picture and nothing stands before it."""
        rows, width = self.camera.rows, self.camera.width
        if 0 <= row < rows and 0 <= column < width and self.depth[int(row) * width + int(column)] >= depth - 0.05:
            self.lights.append((column, row, max(size, 1.2), colour))


@lru_cache(maxsize=8)
def _raster(rows: int, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column of each pixel."""
    return np.repeat(np.arange(rows), width), np.tile(np.arange(width), rows)


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
