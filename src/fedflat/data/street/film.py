"""The images of one vehicle along its route: rendering of images and masks, and the look of a camera.

Route, traffic, light and noise have their own generators. So the same journey in other weather has
the same route, traffic and masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from fedflat.core.seeds import numpy_generator
from fedflat.data.street import cars as car
from fedflat.data.street import figures as figure
from fedflat.data.street.buildings import lay_ground, raise_walls
from fedflat.data.street.frame import IGNORED, ROUND, Array, Camera, Index, Shots, StreetFrame, lay
from fedflat.data.street.town import Figures, Town, town
from fedflat.data.street.traffic import VIEWS, Traffic, camera, drive, meet
from fedflat.data.street.weather import WEATHERS, Light, Weather, light_up

FINISHES = ("real", "game")
GREY = np.array([0.3, 0.59, 0.11], np.float32)


@dataclass(frozen=True)
class Lens:
    """One camera: white balance, exposure and noise."""

    style: str
    balance: tuple[float, float, float]
    exposure: float
    grain: float

    @classmethod
    def sample(cls, style: str, rng: np.random.Generator) -> Lens:
        """A random camera; a game has the same one for all."""
        if style == "game":
            return cls(style, (1.0, 1.0, 1.0), 1.0, 0.0)
        red, blue = rng.uniform(0.95, 1.05, 2).tolist()
        return cls(
            style,
            (red, 1.0, blue),
            float(rng.uniform(0.93, 1.07)),
            float(rng.uniform(0.008, 0.022)),
        )


def falling(picture: Array, weather: Weather, rngs: Sequence[np.random.Generator]) -> None:
    """Draw rain as streaks, snow as flakes."""
    _, shots, rows, width = picture.shape
    planes = picture.reshape(3, -1)
    size = max(1, rows // 64)
    start = np.arange(shots)[:, None] * rows * width
    if weather.drops:
        count, step = int(rows * width / 90 * weather.drops / size), np.arange(5 * size)
        starts = [(rng.integers(rows, size=count), rng.integers(width, size=count)) for rng in rngs]
        row, column = np.array(starts).transpose(1, 0, 2)[..., None]
        streaks = (
            (row + step) % rows * width
            + (column - step // (3 * size) * size) % width
            + start[..., None]
        )
        for plane in planes:
            plane[streaks] += np.float32(0.1)
    if weather.snow:
        count = int(rows * width / 70 * weather.snow / size)
        starts = [
            (rng.integers(rows - size, size=count), rng.integers(width - size, size=count))
            for rng in rngs
        ]
        row, column = np.array(starts).transpose(1, 0, 2)
        for down, out in product(range(size), range(size)):
            at = (row + down) * width + column + out + start
            for plane in planes:
                plane[at] = plane[at] * np.float32(0.7) + np.float32(0.42)


def develop(picture: Array, lens: Lens, rngs: Sequence[np.random.Generator]) -> NDArray[np.uint8]:
    """The images as bytes: shots, colours, rows, columns."""
    picture = _game(picture) if lens.style == "game" else _real(picture, lens, rngs)
    image = (picture * 255 + 0.5).clip(0, 255).astype(np.uint8)
    return np.ascontiguousarray(image.transpose(1, 0, 2, 3))


def _game(picture: Array) -> Array:
    """Saturated colours, high contrast, few brightness levels."""
    grey = (GREY @ picture.reshape(3, -1)).reshape(picture.shape[1:])
    picture = (grey + (picture - grey) * np.float32(1.45)).clip(0, 1)
    picture = (
        picture * picture * (3 - 2 * picture) * np.float32(0.55)
        + picture * np.float32(0.5)
        + np.float32(0.02)
    )
    return np.asarray(np.rint(picture * 22) / np.float32(22))


def _real(picture: Array, lens: Lens, rngs: Sequence[np.random.Generator]) -> Array:
    """Blur, vignette, film curve and noise."""
    red, green, blue = lens.balance
    mixed = (
        (np.eye(3) * 0.92 + GREY[:, None] * 0.08)
        * np.array([red, green, blue])
        * -1.9
        * lens.exposure
    )
    soft = (mixed.astype(np.float32).T @ picture.reshape(3, -1)).reshape(picture.shape)
    edges = soft[..., :-2] + soft[..., 2:]
    edges *= np.float32(0.12)
    soft[..., 1:-1] *= np.float32(0.76)
    soft[..., 1:-1] += edges
    soft *= _vignette(*picture.shape[2:])
    np.exp(soft, out=soft)
    soft *= np.float32(-1.14)
    size = picture[:, 0].size
    starts = [int(rng.integers(1 << 16)) for rng in rngs]
    grain = np.stack([np.resize(_grain()[start : start + size], size) for start in starts])
    grain = grain * np.float32(lens.grain) + np.float32(1.14)
    soft += grain.reshape(*picture.shape[1:], 3).transpose(3, 0, 1, 2)
    return np.asarray(soft)


@cache
def _vignette(rows: int, width: int) -> Array:
    down, out = np.linspace(-1, 1, rows)[:, None], np.linspace(-1, 1, width)
    return np.asarray(1 - 0.13 * (down * down + out * out), np.float32)


@cache
def _grain() -> Array:
    """Noise that all images share, each from another position."""
    return np.random.default_rng(11).standard_normal(1 << 18, np.float32)


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


APART = 100_000.0
"""Metres between the origins of successive towns, to the east."""
PIXELS = 1 << 15
"""Approximate number of pixels that are rendered at once, to save NumPy calls."""


@dataclass(frozen=True)
class Film:
    """Bytes (frames, 3, rows, columns), classes (frames, rows, columns), and positions.

    ``places`` has a row for each frame: metres east, metres north, degrees clockwise from north.
    All towns are in one plane, `APART` from each other.
    """

    images: NDArray[np.uint8]
    masks: NDArray[np.uint8]
    places: NDArray[np.float64]
    journey: Journey


@dataclass(frozen=True)
class Journey:
    """One vehicle's route through a town, in one weather, with one camera."""

    seed: int
    number: int
    """Distinguishes journeys with the same seed."""
    town: int
    weather: str = "sun"
    view: str = "car"
    style: str = "real"
    width: int = 128
    rows: int = 64
    traffic: float = 1.0
    """Amount of cars and people, relative to the default."""

    def film(self, frames: int) -> Film:
        """The first images along the route."""
        return self.at(self.way(frames))

    def way(self, frames: int) -> NDArray[np.float64]:
        """Positions of the first images: metres east and north within the town, and heading."""
        return drive(
            town(self.town, self.seed),
            numpy_generator(self.seed, "street/way", self.number),
            frames,
        )

    def at(self, way: NDArray[np.float64]) -> Film:
        """Images at these positions, given as by `way`."""
        place, view = town(self.town, self.seed), VIEWS[self.view]
        generator = numpy_generator(self.seed, "street/light", self.number)
        light = Light.sample(WEATHERS[self.weather], generator)
        lens = Lens.sample(self.style, generator)
        images, masks = [], []
        at_once = max(1, PIXELS // (self.width * self.rows))
        for first in range(0, len(way), at_once):
            frames = range(first, min(first + at_once, len(way)))
            traffic_rngs, noise = (
                [numpy_generator(self.seed, purpose, self.number, frame) for frame in frames]
                for purpose in ("street/traffic", "street/noise")
            )
            cameras = [
                camera(way[i], view, rng, self.width, self.rows)
                for i, rng in zip(frames, traffic_rngs, strict=True)
            ]
            traffic = meet(place, cameras, traffic_rngs, self.traffic)
            rendered = pictures(place, cameras, traffic, light, lens, noise, view.bonnet)
            images.append(rendered[0])
            masks.append(rendered[1])
        places = way + np.array([self.town * APART, 0.0, 0.0])
        return Film(np.concatenate(images), np.concatenate(masks), places, self)
