"""Geometric changes: bilinear sampling, zoom about the centre, and smears along a line."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedflat.analysis.corruptions.kind import Images

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
