"""A picture and its mask: a town, a camera, the traffic at that moment, a light and a lens."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street import cars as car
from fedflat.data.street import figures as figure
from fedflat.data.street.camera import Array, Camera
from fedflat.data.street.fragments import lay
from fedflat.data.street.frame import IGNORED, ROUND, Frame
from fedflat.data.street.ground import lay_ground
from fedflat.data.street.lens import Lens, develop, falling
from fedflat.data.street.town import Figures, Town
from fedflat.data.street.traffic import Cars
from fedflat.data.street.walls import raise_walls
from fedflat.data.street.weather import Light, light_up


def picture(
    town: Town, camera: Camera, moving: tuple[Cars, Figures], light: Light, lens: Lens, rng: np.random.Generator,
    bonnet: float = 0.0,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The image (colours, rows, columns) and the mask (rows, columns). ``rng`` is for rain, snow and noise only."""
    frame = Frame(camera, lamps=light.weather.lamps > 0)
    raise_walls(frame, town)
    ground = lay_ground(frame, town)
    _fill(frame, town.figures, *moving)
    if bonnet:
        _bonnet(frame, bonnet)
    lit = light_up(frame, town, light, ground)
    falling(lit, light.weather, rng)
    return develop(lit, lens, rng), frame.mask.reshape(camera.rows, camera.width)


def _fill(frame: Frame, fixed: Figures, cars: Cars, people: Figures) -> None:
    """All that stands in the street."""
    sight = figure.in_sight(frame.camera, fixed, people)
    cars = car.in_sight(frame.camera, cars)
    figure.shade(frame, sight)
    for layer in (figure.draw(frame, sight), car.draw(frame, cars)):
        lay(frame, layer)
    if frame.lamps:
        figure.lamps(frame, sight)
        car.lamps(frame, cars)


def _bonnet(frame: Frame, share: float) -> None:
    """The own bonnet at the lower edge: seen, and not to be told apart."""
    there, colour = _shape(frame.camera.rows, frame.camera.width, share)
    frame.mask[there], frame.depth[there], frame.facing[there] = IGNORED, 1.0, ROUND
    frame.paint(there, colour)
    if frame.glow is not None:
        frame.glow[there] = 0


@lru_cache(maxsize=8)
def _shape(rows: int, width: int, share: float) -> tuple[NDArray[np.int64], Array]:
    """Pixels and colours of a bonnet."""
    slopes = Camera(0, 0, 0, width=width, rows=rows).slopes
    edge = rows * (1 - share * (1 - 0.45 * (slopes / slopes[-1]) ** 2))
    below = (np.arange(rows)[:, None] + 0.5 - edge).ravel()
    there = (below > 0).nonzero()[0]
    shine = 0.13 + 0.12 * np.exp(-below[there] * 70 / rows)
    return there, shine.astype(np.float32) * np.array([[0.9], [0.95], [1.1]], np.float32)
