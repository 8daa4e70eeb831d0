"""Blur: out of focus, behind frosted glass, by motion or by zoom.

The released images were blurred by ImageMagick. `motion_blur` follows its rule (one half of a
Gaussian along the line). `zoom_blur` magnifies continuously, where the released code first crops to
whole pixels and so does not change 32x32 images below 1.04. `glass_blur` gives a pixel its own
value or that of its left, upper or upper left neighbour: the paper intends to swap the two, but the
released code overwrites one before it reads it.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import correlate, gaussian_filter  # type: ignore[import-untyped]

from fedflat.analysis.corruptions.kind import Images, kind
from fedflat.analysis.corruptions.warp import smear, zoom


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
