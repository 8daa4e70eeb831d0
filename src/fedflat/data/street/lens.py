"""The final look of an image: rain and snow, and the rendering of a game or a camera."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from fedflat.data.street.camera import Array
from fedflat.data.street.weather import Weather

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
    planes, size, start = (
        picture.reshape(3, -1),
        max(1, rows // 64),
        np.arange(shots)[:, None] * rows * width,
    )
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
