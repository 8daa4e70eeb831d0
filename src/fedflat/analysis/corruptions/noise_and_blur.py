"""Noise and blur, and what a kind of corruption is.

A kind is a function of images, a severity from 1 to 5, and a generator. Kinds are written for
pixels from 0 to 1 with one setting per severity. The decorator `kind` makes of them a function of
uint8 images ``(N, C, H, W)`` with 1 or 3 channels. It keeps shape and type.

The released images were blurred by ImageMagick. `motion_blur` follows its rule (one half of a
Gaussian along the line). `zoom_blur` magnifies continuously, where the released code first crops to
whole pixels and so does not change 32x32 images below 1.04. `glass_blur` gives a pixel its own
value or that of its left, upper or upper left neighbour: the paper intends to swap the two, but the
released code overwrites one before it reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import correlate, gaussian_filter  # type: ignore[import-untyped]

from fedflat.errors import SettingError, number

Images = NDArray[np.floating[Any]]
"""Pixels from 0 to 1, ``(N, C, H, W)``."""
Bytes = NDArray[np.uint8]
Corruption = Callable[[Bytes, int, np.random.Generator], Bytes]

SEVERITIES = (1, 2, 3, 4, 5)


def kind(
    settings: Sequence[Any], *, colour: bool = False
) -> Callable[[Callable[[Images, Any, np.random.Generator], Images]], Corruption]:
    """Decorator: make a corruption of a function ``change(pixels, setting, rng)``.

    `settings` has one entry per severity. With `colour`, grey images are refused.
    """

    def make(change: Callable[[Images, Any, np.random.Generator], Images]) -> Corruption:
        @wraps(change)
        def corrupt(x: Bytes, severity: int, rng: np.random.Generator) -> Bytes:
            number(change.__name__, "severity", severity, low=1, high=len(settings), whole=True)
            check(change.__name__, x, colour=colour)
            return levels(change(x.astype(np.float32) / 255, settings[severity - 1], rng))

        return corrupt

    return make


def check(owner: str, x: Bytes, *, colour: bool = False) -> None:
    """Raise `SettingError` unless `x` is a batch of uint8 images with 1 or 3 channels.

    With `colour`, grey images are refused too.
    """
    shape = tuple(getattr(x, "shape", ()))
    if len(shape) != 4 or shape[1] not in (1, 3) or x.dtype != np.uint8:
        found = f"{shape} of {getattr(x, 'dtype', type(x).__name__)}"
        raise SettingError(
            f"{owner}: images must be uint8 of shape (N, 1 or 3, height, width), found {found}."
        )
    if colour and shape[1] == 1:
        raise SettingError(f"{owner} needs colour images, and these are grey. Leave it out.")


def levels(x: Images) -> Bytes:
    """Return pixels from 0 to 1 as bytes, rounded and clipped."""
    return np.rint(np.clip(x, 0, 1) * 255).astype(np.uint8)


def grey(x: Images) -> Images:
    """Return the luminance (ITU-R BT.601) as one channel. Grey images are not changed."""
    if x.shape[1] == 1:
        return x
    weights = np.array([0.299, 0.587, 0.114], np.float32)
    return np.tensordot(weights, x, axes=(0, 1))[:, None]


@kind((0.04, 0.06, 0.08, 0.09, 0.10))
def gaussian_noise(x: Images, scale: float, rng: np.random.Generator) -> Images:
    """Add Gaussian noise of this deviation to each value."""
    return x + np.float32(scale) * rng.standard_normal(x.shape, np.float32)


@kind((500, 250, 100, 75, 50))
def shot_noise(x: Images, photons: float, rng: np.random.Generator) -> Images:
    """Replace each value by a Poisson number of photons, `photons` on average for white."""
    return (rng.poisson(x * photons) / photons).astype(np.float32)


@kind((0.01, 0.02, 0.03, 0.05, 0.07))
def impulse_noise(x: Images, share: float, rng: np.random.Generator) -> Images:
    """Set this share of all values to 0 or 1, each with probability one half."""
    u = rng.random(x.shape, np.float32)
    return np.where(u < share, np.float32(0) + (u < share / 2), x)


@kind((0.06, 0.1, 0.12, 0.16, 0.2))
def speckle_noise(x: Images, scale: float, rng: np.random.Generator) -> Images:
    """Add Gaussian noise in proportion to the value."""
    return x + x * np.float32(scale) * rng.standard_normal(x.shape, np.float32)


Floats = NDArray[np.floating[Any]]


def mirror(place: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """Reflect positions outside ``0 ... length - 1`` about the first and last.

    >>> mirror(np.array([-2, -1, 0, 3, 4, 5]), 4).tolist()
    [2, 1, 0, 3, 2, 1]
    """
    period = max(2 * (length - 1), 1)
    place = np.abs(place) % period
    return np.minimum(place, period - place)


def sample_bilinear(x: Images, rows: Floats, columns: Floats) -> Images:
    """Sample each image at its own positions ``(N, H, W)``, bilinearly. The border is reflected."""
    n, channels, height, width = x.shape
    flat = x.reshape(n, channels, -1)
    top, left = np.floor(rows).astype(np.int64), np.floor(columns).astype(np.int64)
    down, right = (rows - top).astype(np.float32), (columns - left).astype(np.float32)
    result = np.zeros_like(x)
    for step, weight_y in ((0, 1 - down), (1, down)):
        for side, weight_x in ((0, 1 - right), (1, right)):
            place = mirror(top + step, height) * width + mirror(left + side, width)
            pixels = np.take_along_axis(flat, place.reshape(n, 1, -1), axis=2)
            result += (weight_y * weight_x)[:, None] * pixels.reshape(x.shape)
    return result


def zoom(x: Images, factor: float) -> Images:
    """Magnify the centre of each image to the image's size, bilinearly."""
    down, across = (_magnifier(length, factor) for length in x.shape[-2:])
    return down @ x @ across.T


def _magnifier(length: int, factor: float) -> Images:
    """Return the matrix that magnifies a line of pixels about its centre."""
    centre = (length - 1) / 2
    place = centre + (np.arange(length) - centre) / factor
    nearness: Images = 1 - np.abs(place[:, None] - np.arange(length))
    return np.maximum(0, nearness).astype(np.float32)


def smear(x: Images, radius: int, sigma: float, angles: Floats) -> Images:
    """Each image smeared to one side along its own angle (degrees; 0 is to the left, 90 upwards).

    The weight falls as one half of a Gaussian over ``2 radius + 1`` steps of a pixel; the border is
    repeated.
    """
    n, channels, height, width = x.shape
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights /= weights.sum()
    turn = np.deg2rad(angles)
    flat = x.reshape(n, channels, -1)
    result = np.zeros_like(flat)
    for step, weight in zip(steps, weights.astype(np.float32), strict=True):
        rows = np.arange(height) + np.rint(step * np.sin(turn)).astype(np.int64)[:, None]
        columns = np.arange(width) + np.rint(step * np.cos(turn)).astype(np.int64)[:, None]
        place = rows.clip(0, height - 1)[:, :, None] * width + columns.clip(0, width - 1)[:, None]
        result += weight * np.take_along_axis(flat, place.reshape(n, 1, -1), axis=2)
    return result.reshape(x.shape)


def smooth(x: Images, sigma: float) -> Images:
    """Return images under a Gaussian window of 4 deviations. The border is repeated."""
    blurred: Images = gaussian_filter(x, (0, 0, sigma, sigma), mode="nearest")
    return blurred


@kind((0.4, 0.6, 0.7, 0.8, 1))
def gaussian_blur(x: Images, sigma: float, rng: np.random.Generator) -> Images:
    """Replace each pixel by a Gaussian mean of its neighbours."""
    return smooth(x, sigma)


@kind(((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)))
def defocus_blur(x: Images, setting: tuple[float, float], rng: np.random.Generator) -> Images:
    """Replace each pixel by the mean over a disk with a soft rim. The border is reflected."""
    blurred: Images = correlate(x, disk(*setting)[None, None], mode="mirror")
    return blurred


def disk(radius: float, softness: float) -> Images:
    """Return a disk with sum 1, smoothed by a 3x3 Gaussian of deviation `softness`."""
    reach = int(radius) + 1
    line = np.arange(-reach, reach + 1)
    inside = (line[:, None] ** 2 + line**2 <= radius**2).astype(np.float64)
    bell = np.exp(-(np.array([-1, 0, 1]) ** 2) / (2 * softness**2))
    kernel: Images = correlate(inside, np.outer(bell, bell), mode="constant").astype(np.float32)
    total: float = kernel.sum()
    return kernel / np.float32(total)


@kind(((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2)))
def glass_blur(x: Images, setting: tuple[float, int], rng: np.random.Generator) -> Images:
    """Blur, replace pixels by random neighbours in one or two passes, and blur again."""
    sigma, passes = setting
    n, channels, height, width = x.shape
    pixels = smooth(x, sigma).reshape(n, channels, -1)
    rows, columns = np.arange(height)[:, None], np.arange(width)
    for _ in range(passes):
        up, left = rng.integers(0, 2, (2, n, height, width)) * ((rows > 1) & (columns > 1))
        place = (rows - up) * width + columns - left
        pixels = np.take_along_axis(pixels, place.reshape(n, 1, -1), axis=2)
    return smooth(pixels.reshape(x.shape), sigma)


@kind(((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)))
def motion_blur(x: Images, setting: tuple[int, float], rng: np.random.Generator) -> Images:
    """Smear each image along its own direction, at most 45 degrees from horizontal."""
    return smear(x, *setting, rng.uniform(-45, 45, len(x)))


@kind((0.05, 0.10, 0.15, 0.20, 0.25))
def zoom_blur(x: Images, most: float, rng: np.random.Generator) -> Images:
    """Return the mean of the image and of its magnifications by 1, 1.01, ... ``1 + most``."""
    factors = 1 + 0.01 * np.arange(round(100 * most) + 1)
    total = x + sum(zoom(x, factor) for factor in factors)
    return total / np.float32(len(factors) + 1)
