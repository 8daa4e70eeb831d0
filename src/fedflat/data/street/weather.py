"""Weather and light: the sky, and its effect on colours. They never change a mask."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, radians, sin, tan

import numpy as np

from fedflat.data.street.buildings import Ground
from fedflat.data.street.frame import ROAD, SKY, UP, Array, StreetFrame, cut, rough
from fedflat.data.street.town import Town

Triple = tuple[float, float, float]


@dataclass(frozen=True)
class Weather:
    """Colours from 0 to 1; ``sun`` and ``ambient`` are the light of sun and sky on a white wall."""

    zenith: Triple
    horizon: Triple
    ambient: Triple
    sun: Triple = (0.0, 0.0, 0.0)
    high: float = 40.0
    """Degrees of the sun above the horizon."""
    clouds: float = 0.3
    cloud: Triple = (1.0, 1.0, 1.0)
    haze: float = 0.0022
    """Share of the haze's colour that a metre adds."""
    wet: float = 0.0
    lamps: float = 0.0
    drops: float = 0.0
    snow: float = 0.0
    stars: float = 0.0


WEATHERS = {
    "sun": Weather(
        (0.22, 0.46, 0.84), (0.72, 0.85, 0.97), (0.5, 0.54, 0.62), (0.66, 0.6, 0.48), clouds=0.38
    ),
    "clouds": Weather(
        (0.56, 0.61, 0.68),
        (0.8, 0.82, 0.84),
        (0.8, 0.81, 0.84),
        clouds=0.9,
        cloud=(0.9, 0.91, 0.93),
        haze=0.004,
    ),
    "rain": Weather(
        (0.36, 0.4, 0.46),
        (0.6, 0.64, 0.68),
        (0.55, 0.58, 0.64),
        clouds=0.95,
        cloud=(0.52, 0.55, 0.6),
        haze=0.009,
        wet=0.8,
        lamps=0.25,
        drops=0.6,
    ),
    "fog": Weather(
        (0.72, 0.74, 0.76), (0.78, 0.79, 0.8), (0.72, 0.73, 0.76), clouds=0.0, haze=0.034, lamps=0.2
    ),
    "dusk": Weather(
        (0.22, 0.26, 0.5),
        (1.0, 0.6, 0.36),
        (0.42, 0.38, 0.46),
        (0.78, 0.42, 0.2),
        high=9,
        clouds=0.5,
        cloud=(0.98, 0.5, 0.4),
        haze=0.004,
        lamps=0.55,
    ),
    "night": Weather(
        (0.02, 0.03, 0.08),
        (0.1, 0.11, 0.19),
        (0.15, 0.17, 0.27),
        clouds=0.35,
        cloud=(0.12, 0.13, 0.2),
        haze=0.003,
        wet=0.2,
        lamps=1.0,
        stars=1.0,
    ),
    "snow": Weather(
        (0.68, 0.72, 0.78),
        (0.86, 0.88, 0.9),
        (0.84, 0.86, 0.92),
        clouds=0.8,
        cloud=(0.84, 0.86, 0.9),
        haze=0.008,
        snow=0.85,
    ),
}
WARM = np.array([[1.0], [0.72], [0.4]], np.float32)
GLOW = np.array([[1.0], [0.78], [0.42]], np.float32)


@dataclass(frozen=True)
class Light:
    """A weather at one time of day: position and brightness of the sun, position of clouds."""

    weather: Weather
    azimuth: float
    strength: float
    drift: float

    @classmethod
    def sample(cls, weather: Weather, rng: np.random.Generator) -> Light:
        return cls(
            weather,
            float(rng.uniform(0, 360)),
            float(rng.uniform(0.92, 1.08)),
            float(rng.uniform(0, 200)),
        )

    @property
    def toward(self) -> Triple:
        """East, north and up components of the sun's direction."""
        flat, high = radians(self.azimuth), radians(self.weather.high)
        return sin(flat) * cos(high), cos(flat) * cos(high), sin(high)


def light_up(frame: StreetFrame, town: Town, light: Light, ground: Ground) -> Array:
    """The lit images, from 0 to about 1: colours, shots, rows, columns."""
    weather, shots = light.weather, frame.shots
    ground = ground.only(frame.facing.take(ground.place) == UP)
    if weather.snow:
        _whiten(frame, weather.snow, ground)
    level = _column(weather.ambient) * np.float32(light.strength)
    if any(weather.sun):
        level = (
            _direct(frame, town, light, ground)
            * (_column(weather.sun) * np.float32(light.strength))
            + level
        )
    if weather.lamps > 0.3:
        level = level + _street_light(frame, weather.lamps)
    picture = frame.colour * level
    if frame.glow is not None:
        picture += frame.glow * GLOW * np.float32(weather.lamps)
    thick = 1 - np.exp(frame.depth * np.float32(-weather.haze))
    picture += (_column(weather.horizon) - picture) * thick
    _sky(frame, light, picture)
    if frame.glow is not None:
        _halos(frame, picture, weather.lamps)
    if weather.wet:
        _mirror(frame, picture, weather.wet, ground)
    return picture.reshape(3, shots.count, shots.rows, shots.width)


def _column(colour: Triple) -> Array:
    return np.array(colour, np.float32)[:, None]


def _whiten(frame: StreetFrame, amount: float, ground: Ground) -> None:
    """Snow, thinner on roads."""
    lying = np.where(frame.facing == UP, amount, 0.18).astype(np.float32)
    road = ground.only(frame.mask.take(ground.place) == ROAD)
    lying[road.place] *= 0.25 + 0.6 * (rough(road.east * 3, road.north * 3) > 0.5)
    frame.colour += (_column((0.95, 0.97, 1.0)) - frame.colour) * lying


def _direct(frame: StreetFrame, town: Town, light: Light, ground: Ground) -> Array:
    """The share of sunlight on each pixel; less on ground in the shadow of houses."""
    east, north, high = light.toward
    direct = (
        np.array([high, -east, east, -north, north, 0.55], np.float32).clip(0).take(frame.facing)
    )
    flat, rise = float(np.hypot(east, north)), tan(radians(light.weather.high))
    size = len(town.roofs)
    row, column = ground.north - np.float32(town.low), ground.east - np.float32(town.low)
    lit = np.ones(len(row), bool)
    for far in (2.0, 4.5, 8.0, 13.0, 20.0):
        i = (row + np.float32(far * north / flat)).clip(0, size - 1).astype(np.int32)
        j = (column + np.float32(far * east / flat)).clip(0, size - 1).astype(np.int32)
        lit &= town.roofs.take(i * size + j) < far * rise + 0.5
    direct[ground.place.compress(~lit)] *= np.float32(0.12)
    return np.asarray(direct)


def _street_light(frame: StreetFrame, amount: float) -> Array:
    """Warm light of lamps near the ground, and of the own headlights."""
    shots = frame.shots
    depth = frame.depth.reshape(shots.count, shots.rows, shots.width)
    up = np.maximum(shots.height[:, None, None] - shots.drops[..., None] * depth, 0)
    lamps = np.float32(0.42 * amount) * np.exp(up * np.float32(-0.16))
    beam = np.exp(-(((depth - 8) / 11) ** 2) - (shots.slopes / 0.5) ** 2) * np.float32(0.4 * amount)
    beam *= np.exp(-up * np.float32(0.7))
    return np.asarray(lamps.ravel() * WARM + beam.ravel() * _column((1.0, 0.96, 0.86)))


def _sky(frame: StreetFrame, light: Light, picture: Array) -> None:
    shots, weather = frame.shots, light.weather
    sky = (frame.mask == SKY).nonzero()[0]
    _, row, ray = frame.lines(sky)
    rise = np.maximum(-shots.drops, 0).ravel()  # per row
    up = rise.take(row)
    ray_east, ray_north = (part.take(ray) for part in shots.rays)
    blend = (rise * 2.4).clip(0, 1) ** 0.75
    colour = (_column(weather.horizon) * (1 - blend) + _column(weather.zenith) * blend).take(row, 1)
    if any(weather.sun):
        x, y, z = light.toward
        length = np.sqrt(ray_east**2 + ray_north**2 + up**2)
        near = ((ray_east * x + ray_north * y + up * z) / length).clip(0, 1)
        colour += (near**8 * 0.22 + near**220) * (_column(weather.sun) * 1.3)
    if weather.clouds:
        away = (14 / (rise + 0.12)).take(row)
        dense = rough(ray_east * away + light.drift, ray_north * away + light.drift * 1.7)
        fine = rough(ray_east * away * 3.1 + light.drift, ray_north * away * 3.1)
        cover = ((dense * 0.75 + fine * 0.25 - 0.78 + weather.clouds * 0.62) * 4.0).clip(0, 1)
        cover = cover * (rise * 9).clip(0, 1).take(row)
        colour += (_column(weather.cloud) * (0.84 + 0.24 * fine) - colour) * (cover * 0.88)
    if weather.stars:
        star = rough(ray_east * 700 / (up + 0.5), ray_north * 700 / (up + 0.5) + up * 900) > 0.9
        colour += (star & (up > 0.06)) * np.float32(0.5 * weather.stars)
    for plane, part in zip(picture, colour, strict=True):
        plane[sky] = part


def _halos(frame: StreetFrame, picture: Array, amount: float) -> None:
    """Light around lamps."""
    shot, column, row, radius, *colours = (
        np.concatenate(part) for part in zip(*frame.lights, strict=True)
    )
    column, row, radius, *colours = (
        part.astype(np.float32) for part in (column, row, radius, *colours)
    )
    wide = 1.9 * radius
    pixels = cut(frame.shots, shot, column - wide, column + wide, row - wide, row + wide)
    owner, (at_row, at_column) = pixels.owner, frame.pixel(pixels.place)
    down = at_row + np.float32(0.5) - row.take(owner)
    out = at_column + np.float32(0.5) - column.take(owner)
    away = (down**2 + out**2) / (radius**2).take(owner)
    strength = (0.55 * np.exp(-away * 1.6) + 0.9 * np.exp(-away * 40)) * np.float32(amount)
    for plane, part in zip(picture, colours, strict=True):
        plane += np.bincount(pixels.place, strength * part.take(owner), len(plane))


def _mirror(frame: StreetFrame, picture: Array, wet: float, ground: Ground) -> None:
    """Reflections of objects above the horizon on wet ground, stronger at flat angles."""
    shots, place = frame.shots, ground.place
    shot, row, ray = frame.lines(place)
    across = (
        np.rint(2 * shots.exact_horizon[:, None] - np.arange(shots.rows) - 1)
        .clip(0, shots.rows - 1)
        .astype(int)
    )
    across = across.take(row)
    start = ray + shot * (shots.rows - 1) * shots.width  # the pixel's column in the top row
    lines = across, np.maximum(across - 1, 0), np.minimum(across + 2, shots.rows - 1)
    mirrored = [start + line * shots.width for line in lines]
    puddles = (rough(ground.east * 2.2, ground.north * 2.2) * 2.4 - 0.7).clip(0.25, 1)
    share = puddles * np.exp(-shots.drops * 2.2).take(row) * np.float32(0.62 * wet)
    for plane in picture:
        at, above, below = (plane.take(where) for where in mirrored)
        dry = plane.take(place) * (1 - np.float32(0.3 * wet))
        plane[place] = (
            dry + ((at + above + below) * np.float32(1 / 3) - dry * np.float32(0.6)) * share
        )
