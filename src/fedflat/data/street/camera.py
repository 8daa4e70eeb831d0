"""Perspective projection of a level camera above flat ground.

Depth is measured along the heading. Looking up or down shifts the horizon, as a shift lens does, so
that vertical lines stay vertical:

    column = width / 2 + f * right / depth
    row    = horizon - f * (up - height) / depth,     horizon = rows / 2 + f * tan(pitch)

with ``f = width / 2 / tan(fov / 2)``. The centre of pixel (i, j) is at row i + 1/2 and column j +
1/2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
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
        self.count, self.rows, self.width, self.focal = (
            len(cameras),
            first.rows,
            first.width,
            first.focal,
        )
        self.exact_height = np.array([camera.height for camera in cameras])
        self.exact_horizon = np.array([camera.horizon for camera in cameras])
        self.height, self.horizon = (
            self.exact_height.astype(np.float32),
            self.exact_horizon.astype(np.float32),
        )
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
        """The rightward component of directions in a shot."""
        return np.asarray(east * self._y.take(shot) - north * self._x.take(shot))

    def around(self, place: Array, reach: float) -> Index:
        """The points (one per row) that may be at most ``reach`` ahead in one of the shots."""
        reach *= float(np.hypot(1, self.slopes[-1]))
        (west, south), (east, north) = (
            self._poses[:2].min(1) - reach,
            self._poses[:2].max(1) + reach,
        )
        at_east, at_north = place[:, 0], place[:, 1]
        inside = (at_east > west) & (at_east < east) & (at_north > south) & (at_north < north)
        return np.asarray(inside.nonzero()[0])
