"""A picture in the making: for each pixel its class, depth, colour without light, which way it faces, what it glows."""

from __future__ import annotations

from functools import cache

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
    """The buffers of one picture; at first all sky, infinitely far."""

    def __init__(self, camera: Camera, lamps: bool) -> None:
        shape = camera.rows, camera.width
        self.camera, self.lamps = camera, lamps
        self.mask = np.full(shape, SKY, np.uint8)
        self.depth = np.full(shape, 1e4, np.float32)
        self.colour = np.zeros((*shape, 3), np.float32)
        self.facing = np.full(shape, ROUND, np.uint8)
        self.glow = np.zeros((*shape, 3), np.float32) if lamps else None
        self.lights: list[tuple[float, float, float, tuple[float, float, float]]] = []
        """Column, row, radius in pixels and colour of lamps in sight."""

    def shine(self, column: float, row: float, depth: float, size: float, colour: tuple[float, float, float]) -> None:
        """Note a lamp, if it is in the picture and nothing stands before it."""
        rows, width = self.mask.shape
        if 0 <= row < rows and 0 <= column < width and self.depth[int(row), int(column)] >= depth - 0.05:
            self.lights.append((column, row, max(size, 1.2), colour))


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
    return np.asarray(noise()[along.astype(np.int32) & (TILE - 1), across.astype(np.int32) & (TILE - 1)])


def hashed(*keys: NDArray[np.int64]) -> Array:
    """A number from 0 to 1 that looks random and depends on whole numbers only."""
    total = np.zeros((), np.uint32)
    for factor, key in zip((0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D), keys, strict=False):
        total = (total ^ (key.astype(np.uint32) * np.uint32(factor))) * np.uint32(0x27D4EB2F)
        total ^= total >> np.uint32(15)
    return (total >> np.uint32(8)).astype(np.float32) * np.float32(1 / (1 << 24))
