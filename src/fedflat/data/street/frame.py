"""What an image in progress is made of: cameras, buffers of pixels, and pixels of small objects.

A camera is level above flat ground. Depth is measured along the heading. Looking up or down shifts
the horizon, as a shift lens does, so that vertical lines stay vertical:

    column = width / 2 + f * right / depth
    row    = horizon - f * (up - height) / depth,     horizon = rows / 2 + f * tan(pitch)

with ``f = width / 2 / tan(fov / 2)``. The centre of pixel (i, j) is at row i + 1/2 and column j +
1/2.

Buffers have class, depth, unlit colour, orientation and glow per pixel. Colours are the first axis,
as in (3, rows, columns), because NumPy is much faster on long rows than on triples.

Many small objects are drawn at once, in one long list instead of a loop. Each covers a rectangle of
the image. If several fall on one pixel, the nearest is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import cos, radians, sin, tan
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""Numbers of an image or a town, usually float32."""
Index = NDArray[np.int64]
"""Indices into arrays."""


@dataclass(frozen=True)
class Camera:
    """Position and direction: metres east and north, degrees clockwise from north."""

    east: float
    north: float
    heading: float
    height: float = 1.5
    pitch: float = 0.0
    width: int = 128
    rows: int = 64
    fov: float = 72.0

    @cached_property
    def focal(self) -> float:
        """Width in pixels of an object one metre wide at one metre distance."""
        return self.width / 2 / tan(radians(self.fov) / 2)

    @cached_property
    def horizon(self) -> float:
        """The row of everything infinitely far away, or at the height of the camera."""
        return self.rows / 2 + self.focal * tan(radians(self.pitch))

    @cached_property
    def forward(self) -> tuple[float, float]:
        """East and north components of the heading."""
        return sin(radians(self.heading)), cos(radians(self.heading))


class Shots:
    """Images that are rendered together; their cameras differ in position and direction only.

    A NumPy call on a small image costs about as much as its overhead, so several images are
    processed at once.
    """

    def __init__(self, cameras: Sequence[Camera]) -> None:
        first = cameras[0]
        self.count = len(cameras)
        self.rows = first.rows
        self.width = first.width
        self.focal = first.focal
        self.exact_height = np.array([camera.height for camera in cameras])
        self.exact_horizon = np.array([camera.horizon for camera in cameras])
        self.height = self.exact_height.astype(np.float32)
        self.horizon = self.exact_horizon.astype(np.float32)
        self.heading = np.array([camera.heading for camera in cameras], np.float32)
        self._poses = np.array(
            [(camera.east, camera.north, *camera.forward) for camera in cameras]
        ).T
        self.east, self.north, self._x, self._y = self._poses.astype(np.float32)

    @cached_property
    def slopes(self) -> Array:
        """For each column, how far a ray goes to the right per metre of depth."""
        return ((np.arange(self.width) + 0.5 - self.width / 2) / self.focal).astype(np.float32)

    @cached_property
    def drops(self) -> Array:
        """For each shot and row, how far a ray goes down per metre of depth."""
        return np.asarray(
            (np.arange(self.rows) + 0.5 - self.exact_horizon[:, None]) / self.focal, np.float32
        )

    @cached_property
    def rays(self) -> tuple[Array, Array]:
        """For each shot and column, how far rays go east and north per metre of depth; never
        exactly 0."""
        x, y = self._x[:, None], self._y[:, None]
        east, north = x + y * self.slopes, y - x * self.slopes
        tiny = np.float32(1e-6)
        return np.where(np.abs(east) < tiny, tiny, east), np.where(
            np.abs(north) < tiny, tiny, north
        )

    def view(self, shot: Index, east: Array, north: Array) -> tuple[Array, Array]:
        """Distances of points to the right and ahead of the camera of a shot.

        >>> shots = Shots([Camera(0, 0, 90)])
        >>> right, ahead = shots.view(np.array([0]), np.array([10.0]), np.array([-2.0]))
        >>> right.round(5), ahead.round(5)
        (array([2.], dtype=float32), array([10.], dtype=float32))
        """
        start_east, start_north, x, y = self._poses.astype(east.dtype).take(shot, 1)
        right_of, ahead_of = east - start_east, north - start_north
        right, ahead = right_of * y - ahead_of * x, right_of * x + ahead_of * y
        return right.astype(np.float32, copy=False), ahead.astype(np.float32, copy=False)

    def rightward(self, shot: Index, east: Array, north: Array) -> Array:
        return np.asarray(east * self._y.take(shot) - north * self._x.take(shot))

    def around(self, place: Array, reach: float) -> Index:
        """The points (one per row) that may be at most ``reach`` ahead in one of the shots."""
        reach *= float(np.hypot(1, self.slopes[-1]))
        west, south = self._poses[:2].min(1) - reach
        east, north = self._poses[:2].max(1) + reach
        at_east, at_north = place[:, 0], place[:, 1]
        inside = (at_east > west) & (at_east < east) & (at_north > south) & (at_north < north)
        return np.asarray(inside.nonzero()[0])


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
    # For each row of each rectangle.
    starts = steps((shot * rows + high) * width + first, tall, width)
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
