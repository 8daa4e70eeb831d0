"""Pictures and their masks: a town, cameras, the traffic at those moments, a light and a lens."""

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
    """Images (shots, colours, rows, columns) and masks (shots, rows, columns), each as if it were
    alone.

    The cameras make pictures of one size. The generators, one a shot, are for rain, snow and noise
    only.
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
    """All that stands in the street."""
    sight = figure.in_sight(frame.shots, fixed, traffic.people, traffic.person_shot)
    cars, shot = car.in_sight(frame.shots, traffic.cars, traffic.car_shot)
    figure.shade(frame, sight)
    for layer in (figure.draw(frame, sight), car.draw(frame, cars, shot)):
        lay(frame, layer)
    if frame.lamps:
        figure.lamps(frame, sight)
        car.lamps(frame, cars, shot)


def _bonnet(frame: StreetFrame, share: float) -> None:
    """The own bonnet at the lower edge: seen, and not to be told apart."""
    shots, size = frame.shots, frame.shots.rows * frame.shots.width
    one, colour = _shape(shots.rows, shots.width, share)
    there = (np.arange(shots.count)[:, None] * size + one).ravel()
    frame.mask[there], frame.depth[there], frame.facing[there] = IGNORED, 1.0, ROUND
    frame.paint(there, np.tile(colour, shots.count))
    if frame.glow is not None:
        frame.glow[there] = 0


@lru_cache(maxsize=8)
def _shape(rows: int, width: int, share: float) -> tuple[Index, Array]:
    """Pixels and colours of a bonnet."""
    slopes = Shots([Camera(0, 0, 0, width=width, rows=rows)]).slopes
    edge = rows * (1 - share * (1 - 0.45 * (slopes / slopes[-1]) ** 2))
    below = (np.arange(rows)[:, None] + 0.5 - edge).ravel()
    there = (below > 0).nonzero()[0]
    shine = 0.13 + 0.12 * np.exp(-below[there] * 70 / rows)
    return there, shine.astype(np.float32) * np.array([[0.9], [0.95], [1.1]], np.float32)
