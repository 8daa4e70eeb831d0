"""Digital corruptions: brightness, contrast, saturation, elastic deformation, pixels, JPEG.

Brightness and saturation are V and S of HSV. The other two components stay, which needs no
conversion: a change of V scales a pixel, a change of S moves it towards its V. `elastic_transform`
samples the image once, through the affine map and the deformation together; the released code
samples twice. Its settings are shares of the image's side.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter  # type: ignore[import-untyped]

from fedflat.analysis.corruptions.kind import Bytes, Images, kind, levels
from fedflat.analysis.corruptions.warp import Floats, sample_bilinear
from fedflat.errors import SettingError

TINY = np.float32(1e-6)
"""Smaller than any difference of two bytes."""


@kind((0.05, 0.1, 0.15, 0.2, 0.3))
def brightness(x: Images, more: float, rng: np.random.Generator) -> Images:
    """Raise the largest channel by `more`. Hue and saturation stay; black becomes grey."""
    value: Images = x.max(axis=1, keepdims=True)
    raised = np.minimum(value + np.float32(more), 1)
    result: Images = np.where(value > 0, x * (raised / np.maximum(value, TINY)), raised)
    return result


@kind((0.75, 0.5, 0.4, 0.3, 0.15))
def contrast(x: Images, factor: float, rng: np.random.Generator) -> Images:
    """Move each channel towards its mean over the image."""
    mean: Images = x.mean(axis=(2, 3), keepdims=True)
    return mean + np.float32(factor) * (x - mean)


@kind(((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)), colour=True)
def saturate(x: Images, setting: tuple[float, float], rng: np.random.Generator) -> Images:
    """Reduce saturation in severities 1 and 2, raise it from 3 on.

    Grey has the hue of red, as usual in HSV.
    """
    factor, more = setting
    value: Images = x.max(axis=1, keepdims=True)
    span: Images = value - x.min(axis=1, keepdims=True)
    red = np.array([0, 1, 1], np.float32).reshape(1, 3, 1, 1)
    away: Images = np.where(span > 0, (value - x) / np.maximum(span, TINY), red)
    saturation = np.clip(
        span / np.maximum(value, TINY) * np.float32(factor) + np.float32(more), 0, 1
    )
    return value - away * value * saturation


@kind(((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)))
def elastic_transform(
    x: Images, setting: tuple[float, float, float], rng: np.random.Generator
) -> Images:
    """Apply a random affine map and an elastic deformation to each image.

    A setting is ``(strength, smoothness, shift of corners)``. With the severity the deformation
    grows and the affine map shrinks, so the mean change of a pixel does not grow.
    """
    n, _, height, width = x.shape
    strength, smoothness, shift = (part * height for part in setting)
    window = (0, 0, smoothness, smoothness)
    bend = rng.uniform(-1, 1, (2, n, height, width))
    bend = strength * gaussian_filter(bend, window, mode="reflect", truncate=3)
    rows = np.arange(height)[:, None] + bend[0]
    columns = np.arange(width) + bend[1]
    places = np.stack([rows, columns, np.ones_like(rows)], axis=-1)
    source = np.einsum("nhwi,nij->jnhw", places, affine(n, height, width, shift, rng))
    return sample_bilinear(x, source[0], source[1])


def affine(n: int, height: int, width: int, shift: float, rng: np.random.Generator) -> Floats:
    """Return affine maps ``(n, 3, 2)`` from ``(row, column, 1)`` to the source of a pixel.

    Three corners are moved by up to `shift`.
    """
    centre, third = np.array([height // 2, width // 2]), min(height, width) // 3
    corners = centre + third * np.array([[1, 1], [1, -1], [-1, -1]])
    moved = corners + rng.uniform(-shift, shift, (n, 3, 2))
    ones = np.ones((n, 3, 1))
    return np.linalg.solve(
        np.concatenate([moved, ones], axis=2), np.broadcast_to(corners, (n, 3, 2))
    )


@kind((0.95, 0.9, 0.85, 0.75, 0.65))
def pixelate(x: Images, share: float, rng: np.random.Generator) -> Images:
    """Downscale by means over boxes, then upscale by repeating pixels."""
    rows, columns = (_boxes(length, max(1, int(length * share))) for length in x.shape[-2:])
    narrow = levels(x @ _means(columns).T)
    small = levels(_means(rows) @ (narrow / np.float32(255)))
    return small[:, :, rows][..., columns] / np.float32(255)


def _boxes(length: int, count: int) -> NDArray[np.int64]:
    """Return in which of `count` equal parts of a line the centre of each pixel lies."""
    return ((np.arange(length) + 0.5) * count / length).astype(np.int64)


def _means(box: NDArray[np.int64]) -> Images:
    """Return the matrix that takes the mean over each box."""
    member: Images = np.equal(box, np.arange(box[-1] + 1)[:, None]).astype(np.float32)
    size: Images = member.sum(axis=1, keepdims=True)
    return member / size


@kind((80, 65, 58, 50, 40))
def jpeg_compression(x: Images, quality: int, rng: np.random.Generator) -> Images:
    """Encode as JPEG of this quality and decode again. Needs Pillow."""
    Image = pillow()
    result = np.empty(x.shape, np.uint8)
    for place, image in enumerate(levels(x)):
        file = BytesIO()
        Image.fromarray(_interleaved(image)).save(file, "JPEG", quality=quality)
        with Image.open(file) as stored:
            result[place] = np.atleast_3d(np.asarray(stored)).transpose(2, 0, 1)
    return result / np.float32(255)


def pillow() -> Any:
    """Return Pillow's `Image`. Raise `SettingError` if it is not installed."""
    try:
        from PIL import Image
    except ImportError:
        raise SettingError(
            "jpeg_compression needs Pillow, which is not installed. "
            "Install fedflat[vision], or leave jpeg_compression out."
        ) from None
    return Image


def _interleaved(image: Bytes) -> Bytes:
    """Return one image as Pillow needs it: ``(H, W)`` if it is grey, else ``(H, W, 3)``."""
    return image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0))
