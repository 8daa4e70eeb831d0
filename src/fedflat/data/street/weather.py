"""Weather and light: what the sky looks like, and what it does to the colours below. It never changes a mask."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, radians, sin, tan

import numpy as np

from fedflat.data.street.camera import Array
from fedflat.data.street.fragments import cut
from fedflat.data.street.frame import SKY, UP, Frame, rough
from fedflat.data.street.town import Town

Triple = tuple[float, float, float]


@dataclass(frozen=True)
class Weather:
    """Colours from 0 to 1; ``sun`` and ``ambient`` are what direct light and the sky give to a white wall."""

    zenith: Triple
    horizon: Triple
    ambient: Triple
    sun: Triple = (0.0, 0.0, 0.0)
    high: float = 40.0
    """How many degrees the sun stands above the horizon."""
    clouds: float = 0.3
    cloud: Triple = (1.0, 1.0, 1.0)
    haze: float = 0.0022
    """How much of the haze's colour a metre adds."""
    wet: float = 0.0
    lamps: float = 0.0
    drops: float = 0.0
    snow: float = 0.0
    stars: float = 0.0


WEATHERS = {
    "sun": Weather((0.22, 0.46, 0.84), (0.72, 0.85, 0.97), (0.5, 0.54, 0.62), (0.66, 0.6, 0.48), clouds=0.38),
    "clouds": Weather(
        (0.56, 0.61, 0.68), (0.8, 0.82, 0.84), (0.8, 0.81, 0.84), clouds=0.9, cloud=(0.9, 0.91, 0.93), haze=0.004
    ),
    "rain": Weather(
        (0.36, 0.4, 0.46), (0.6, 0.64, 0.68), (0.55, 0.58, 0.64), clouds=0.95, cloud=(0.52, 0.55, 0.6), haze=0.009,
        wet=0.8, lamps=0.25, drops=0.6,
    ),
    "fog": Weather((0.72, 0.74, 0.76), (0.78, 0.79, 0.8), (0.72, 0.73, 0.76), clouds=0.0, haze=0.034, lamps=0.2),
    "dusk": Weather(
        (0.22, 0.26, 0.5), (1.0, 0.6, 0.36), (0.42, 0.38, 0.46), (0.78, 0.42, 0.2), high=9, clouds=0.5,
        cloud=(0.98, 0.5, 0.4), haze=0.004, lamps=0.55,
    ),
    "night": Weather(
        (0.02, 0.03, 0.08), (0.1, 0.11, 0.19), (0.15, 0.17, 0.27), clouds=0.35, cloud=(0.12, 0.13, 0.2), haze=0.003,
        wet=0.2, lamps=1.0, stars=1.0,
    ),
    "snow": Weather(
        (0.68, 0.72, 0.78), (0.86, 0.88, 0.9), (0.84, 0.86, 0.92), clouds=0.8, cloud=(0.84, 0.86, 0.9), haze=0.008,
        snow=0.85,
    ),
}  # fmt: skip
WARM = np.array([1.0, 0.72, 0.4], np.float32)


@dataclass(frozen=True)
class Light:
    """A weather at one time of day: where the sun stands, how bright it is, where the clouds are."""

    weather: Weather
    azimuth: float
    strength: float
    drift: float

    @classmethod
    def drawn(cls, weather: Weather, rng: np.random.Generator) -> Light:
        """A time of the day."""
        return cls(weather, float(rng.uniform(0, 360)), float(rng.uniform(0.92, 1.08)), float(rng.uniform(0, 200)))

    @property
    def toward(self) -> Triple:
        """East, north and up of the sun."""
        flat, high = radians(self.azimuth), radians(self.weather.high)
        return sin(flat) * cos(high), cos(flat) * cos(high), sin(high)


def light_up(frame: Frame, town: Town, light: Light, ground: tuple[slice, Array, Array] | None) -> Array:
    """The picture in this light, from 0 to about 1."""
    weather = light.weather
    if weather.snow:
        _whiten(frame, weather.snow, ground)
    east, north, high = light.toward
    direct = np.array([high, -east, east, -north, north, 0.55], np.float32).clip(0)[frame.facing]
    if ground is not None and any(weather.sun):
        direct[ground[0]] *= _shadows(frame, town, light, ground)
    shine = np.array(weather.sun, np.float32) * np.float32(light.strength)
    level = direct[..., None] * shine + np.array(weather.ambient, np.float32) * np.float32(light.strength)
    if weather.lamps > 0.3:
        level += _street_light(frame, weather.lamps)
    picture = frame.colour * level
    if frame.glow is not None:
        picture += frame.glow * np.float32(weather.lamps)
    thick = 1 - np.exp(frame.depth * np.float32(-weather.haze))
    picture += (np.array(weather.horizon, np.float32) - picture) * thick[..., None]
    _sky(frame, light, picture)
    if frame.glow is not None:
        _halos(frame, picture, weather.lamps)
    if weather.wet and ground is not None:
        _mirror(frame, picture, weather.wet, ground)
    return np.asarray(picture)


def _whiten(frame: Frame, amount: float, ground: tuple[slice, Array, Array] | None) -> None:
    lying = np.where(frame.facing == UP, amount, 0.18).astype(np.float32)
    if ground is not None:
        rows, east, north = ground
        trodden = frame.mask[rows] == 0
        lying[rows] *= np.where(trodden, 0.25 + 0.6 * (rough(east * 3, north * 3) > 0.5), 1.0)
    frame.colour += (np.array([0.95, 0.97, 1.0], np.float32) - frame.colour) * lying[..., None]


def _shadows(frame: Frame, town: Town, light: Light, ground: tuple[slice, Array, Array]) -> Array:
    """1 where the sun reaches the ground, less where a house stands between."""
    rows, east, north = ground
    x, y, _ = light.toward
    flat = float(np.hypot(x, y))
    rise = tan(radians(light.weather.high))
    size = len(town.roofs)
    row, column = north - np.float32(town.low), east - np.float32(town.low)
    lit = np.ones(east.shape, bool)
    for far in (2.0, 4.5, 8.0, 13.0, 20.0):
        i = np.clip(row + np.float32(far * y / flat), 0, size - 1).astype(np.int32)
        j = np.clip(column + np.float32(far * x / flat), 0, size - 1).astype(np.int32)
        lit &= town.roofs.take(i * size + j) < far * rise + 0.5
    return np.asarray(np.where(lit | (frame.facing[rows] != UP), np.float32(1), np.float32(0.12)))


def _street_light(frame: Frame, amount: float) -> Array:
    """Warm light from the lamps near the ground, and the own headlights ahead."""
    camera = frame.camera
    up = np.maximum(np.float32(camera.height) - camera.drops[:, None] * frame.depth, 0)
    lamps = np.float32(0.42 * amount) * np.exp(up * np.float32(-0.16))
    beam = np.exp(-(((frame.depth - 8) / 11) ** 2) - (camera.slopes / 0.5) ** 2) * np.float32(0.4 * amount)
    beam *= np.exp(-up * np.float32(0.7))
    return np.asarray(lamps[..., None] * WARM + beam[..., None] * np.array([1.0, 0.96, 0.86], np.float32))


def _sky(frame: Frame, light: Light, picture: Array) -> None:
    camera, weather = frame.camera, light.weather
    there = np.flatnonzero(frame.mask == SKY)
    rows, columns = there // camera.width, there % camera.width
    up = np.maximum(-camera.drops[rows], 0)
    ray_east, ray_north = (ray[columns] for ray in camera.rays)
    blend = np.clip(up * 2.4, 0, 1)[:, None] ** 0.75
    colour = np.array(weather.horizon, np.float32) * (1 - blend) + np.array(weather.zenith, np.float32) * blend
    x, y, z = light.toward
    length = np.sqrt(ray_east**2 + ray_north**2 + up**2)
    near = np.clip((ray_east * x + ray_north * y + up * z) / length, 0, 1)
    if any(weather.sun):
        colour += (near**8 * 0.22 + near**220)[:, None] * (np.array(weather.sun, np.float32) * 1.3)
    if weather.clouds:
        away = 14 / (up + 0.12)
        dense = rough(ray_east * away + light.drift, ray_north * away + light.drift * 1.7)
        fine = rough(ray_east * away * 3.1 + light.drift, ray_north * away * 3.1)
        cover = np.clip((dense * 0.75 + fine * 0.25 - 0.78 + weather.clouds * 0.62) * 4.0, 0, 1) * np.clip(up * 9, 0, 1)
        tone = np.array(weather.cloud, np.float32) * (0.84 + 0.24 * fine[:, None])
        colour += (tone - colour) * (cover * 0.88)[:, None]
    if weather.stars:
        star = rough(ray_east * 700 / (up + 0.5), ray_north * 700 / (up + 0.5) + up * 900) > 0.9
        colour += (star & (up > 0.06))[:, None] * np.float32(0.5 * weather.stars)
    picture.reshape(-1, 3)[there] = colour


def _halos(frame: Frame, picture: Array, amount: float) -> None:
    """Light that spreads around lamps."""
    if not frame.lights:
        return
    column, row, radius = (np.array([lamp[i] for lamp in frame.lights], np.float32) for i in range(3))
    colour = np.array([lamp[3] for lamp in frame.lights], np.float32)
    pixels = cut(column - 1.9 * radius, column + 1.9 * radius, row - 1.9 * radius, row + 1.9 * radius, picture.shape)
    owner = pixels.owner
    away = (pixels.row + np.float32(0.5) - row[owner]) ** 2 + (pixels.column + np.float32(0.5) - column[owner]) ** 2
    away = away / radius[owner] ** 2
    strength = (0.55 * np.exp(-away * 1.6) + 0.9 * np.exp(-away * 40)) * np.float32(amount)
    for part in range(3):
        light = np.bincount(pixels.place, strength * colour[owner, part], picture.shape[0] * picture.shape[1])
        picture[..., part] += light.reshape(picture.shape[:2])


def _mirror(frame: Frame, picture: Array, wet: float, ground: tuple[slice, Array, Array]) -> None:
    """Wet ground shows what stands above the horizon, upside down, the more the flatter one looks."""
    camera = frame.camera
    rows, east, north = ground
    across = np.clip(np.rint(2 * camera.horizon - np.arange(rows.start, rows.stop) - 1), 0, camera.rows - 1).astype(int)
    above, below = np.maximum(across - 1, 0), np.minimum(across + 2, camera.rows - 1)
    stretched = (picture[across] + picture[above] + picture[below]) * np.float32(1 / 3)
    puddles = np.clip(rough(east * 2.2, north * 2.2) * 2.4 - 0.7, 0.25, 1)
    flat = np.exp(-camera.drops[rows] * 2.2)[:, None]
    share = np.where(frame.facing[rows] == UP, puddles * flat * np.float32(0.62 * wet), 0)
    picture[rows] *= 1 - np.float32(0.3 * wet) * (frame.facing[rows] == UP)[..., None]
    picture[rows] += (stretched - picture[rows] * np.float32(0.6)) * share[..., None]
