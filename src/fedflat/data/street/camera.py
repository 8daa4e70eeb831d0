"""Perspective: a level camera above flat ground, looking along a heading.

Depth is measured along the heading. Looking up or down shifts the horizon, as a shifted lens does, so that what stands
upright stays upright:

    column = width / 2 + f * right / depth
    row    = horizon - f * (up - height) / depth,     horizon = rows / 2 + f * tan(pitch)

with ``f = width / 2 / tan(fov / 2)``. The middle of pixel (i, j) is at row i + 1/2 and column j + 1/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import cos, radians, sin, tan
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""Numbers of a picture or of a town, as a rule float32."""


@dataclass(frozen=True)
class Camera:
    """Where the picture is taken: metres east and north, degrees clockwise from north."""

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
        """Pixels of something one metre wide, one metre away."""
        return self.width / 2 / tan(radians(self.fov) / 2)

    @cached_property
    def horizon(self) -> float:
        """The row of all that is infinitely far, or as high as the camera."""
        return self.rows / 2 + self.focal * tan(radians(self.pitch))

    @cached_property
    def forward(self) -> tuple[float, float]:
        """East and north of the heading."""
        return sin(radians(self.heading)), cos(radians(self.heading))

    @cached_property
    def slopes(self) -> Array:
        """For each column, how far a ray goes to the right in a metre of depth."""
        return _slopes(self.width, self.focal)

    @cached_property
    def drops(self) -> Array:
        """For each row, how far a ray goes down in a metre of depth."""
        return ((np.arange(self.rows) + 0.5 - self.horizon) / self.focal).astype(np.float32)

    @cached_property
    def rays(self) -> tuple[Array, Array]:
        """For each column, how far its rays go east and north in a metre of depth; never quite along an axis."""
        x, y = self.forward
        east, north = x + y * self.slopes, y - x * self.slopes
        tiny = np.float32(1e-6)
        return np.where(np.abs(east) < tiny, tiny, east), np.where(np.abs(north) < tiny, tiny, north)

    def view(self, east: Array, north: Array) -> tuple[Array, Array]:
        """How far points are to the right and ahead."""
        x, y = self.forward
        right_of, ahead_of = np.asarray(east) - self.east, np.asarray(north) - self.north
        right, ahead = right_of * y - ahead_of * x, right_of * x + ahead_of * y
        return right.astype(np.float32, copy=False), ahead.astype(np.float32, copy=False)

    def project(self, east: float, north: float, up: float) -> tuple[float, float, float]:
        """Column, row and depth of a point.

        >>> [round(number, 3) for number in Camera(0, 0, 90, height=2.0).project(10, 0, 2.0)]
        [64.0, 32.0, 10.0]
        """
        right, depth = (float(number) for number in self.view(np.array(east), np.array(north)))
        scale = self.focal / depth
        return self.width / 2 + scale * right, self.horizon - scale * (up - self.height), depth


@lru_cache(maxsize=8)
def _slopes(width: int, focal: float) -> Array:
    return ((np.arange(width) + 0.5 - width / 2) / focal).astype(np.float32)
