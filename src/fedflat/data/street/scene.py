"""Rendering of images and masks: a town, cameras, traffic, light and lens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street import cars as car
from fedflat.data.street import figures as figure
from fedflat.data.street.camera import Array, Camera, Index, Shots
from fedflat.data.street.fragments import lay
from fedflat.data.street.frame import IGNORED, ROUND, StreetFrame
from fedflat.data.street.ground import lay_ground
from fedflat.data.street.lens import Lens, develop, falling
from fedflat.data.street.town import Figures, Town
from fedflat.data.street.traffic import Traffic
from fedflat.data.street.walls import raise_walls
from fedflat.data.street.weather import Light, light_up


def pictures(
    town: Town,
    cameras: Sequence[Camera],
    traffic: Traffic,
    light: Light,
    lens: Lens,
    rngs: Sequence[np.random.Generator],
    bonnet: float = 0.0,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (shots, colours, rows, columns) and masks (shots, rows, columns).

    Each image is the same as if it were rendered alone. All cameras have the same image size. The
    generators, one per shot, are for rain, snow and noise only.
    """
    shots = Shots(cameras)
    frame = StreetFrame(shots, lamps=light.weather.lamps > 0)
    raise_walls(frame, town)
    ground = lay_ground(frame, town)
    _fill(frame, town.figures, traffic)
    if bonnet:
        _bonnet(frame, bonnet)
    lit = light_up(frame, town, light, ground)
    falling(lit, light.weather, rngs)
    return develop(lit, lens, rngs), frame.mask.reshape(shots.count, shots.rows, shots.width)


def _fill(frame: StreetFrame, fixed: Figures, traffic: Traffic) -> None:
    """Add everything that stands in the street."""
    sight = figure.in_sight(frame.shots, fixed, traffic.people, traffic.person_shot)
    cars, shot = car.in_sight(frame.shots, traffic.cars, traffic.car_shot)
    figure.shade(frame, sight)
    for layer in (figure.draw(frame, sight), car.draw(frame, cars, shot)):
        lay(frame, layer)
    if frame.lamps:
        figure.lamps(frame, sight)
        car.lamps(frame, cars, shot)


def _bonnet(frame: StreetFrame, share: float) -> None:
    """Add the vehicle's own bonnet at the lower edge, with the ignored label."""
    shots, size = frame.shots, frame.shots.rows * frame.shots.width
    first, colour = _shape(shots.rows, shots.width, share)
    covered = (np.arange(shots.count)[:, None] * size + first).ravel()
    frame.mask[covered], frame.depth[covered], frame.facing[covered] = IGNORED, 1.0, ROUND
    frame.paint(covered, np.tile(colour, shots.count))
    if frame.glow is not None:
        frame.glow[covered] = 0


@lru_cache(maxsize=8)
def _shape(rows: int, width: int, share: float) -> tuple[Index, Array]:
    """Pixels and colours of a bonnet."""
    slopes = Shots([Camera(0, 0, 0, width=width, rows=rows)]).slopes
    edge = rows * (1 - share * (1 - 0.45 * (slopes / slopes[-1]) ** 2))
    below = (np.arange(rows)[:, None] + 0.5 - edge).ravel()
    covered = (below > 0).nonzero()[0]
    shine = 0.13 + 0.12 * np.exp(-below[covered] * 70 / rows)
    return covered, shine.astype(np.float32) * np.array([[0.9], [0.95], [1.1]], np.float32)
