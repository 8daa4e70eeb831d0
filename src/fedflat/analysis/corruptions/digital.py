"""Digital corruptions, such as brightness, elastic deformation and JPEG; and weather.

Brightness and saturation are V and S of HSV. The other two components stay, which needs no
conversion: a change of V scales a pixel, a change of S moves it towards its V. `elastic_transform`
samples the image once, through the affine map and the deformation together; the released code
samples twice. Its settings are shares of the image's side.

The released images blend photographs of frosted windows. We have none and draw frost instead:
needles of ice that grow inwards from the border over a thin white haze. Water drops are lit by the
distance of a pixel from the drop's rim; the released code uses the distance from detected edges. So
these two kinds match the released ones in strength, not in texture.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import correlate, distance_transform_edt, gaussian_filter, uniform_filter  # type: ignore[import-untyped]

from fedflat.analysis.corruptions.noise_and_blur import (
    Bytes,
    Floats,
    Images,
    grey,
    kind,
    levels,
    sample_bilinear,
    smear,
    smooth,
    zoom,
)
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


NEEDLES = 32
ICE = np.array([0.86, 0.94, 1.0], np.float32).reshape(1, 3, 1, 1)
WATER = np.array([175, 238, 238], np.float32).reshape(1, 3, 1, 1) / 255
MUD = np.array([63, 42, 20], np.float32).reshape(1, 3, 1, 1) / 255
LIGHT = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]], np.float32)[None]


def tint(colour: Images, x: Images) -> Images:
    """Return the colour, or its luminance if the images are grey."""
    return colour if x.shape[1] == 3 else grey(colour)


@kind(
    (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    )
)
def snow(x: Images, setting: tuple[float, ...], rng: np.random.Generator) -> Images:
    """Add flakes to a whitened image: noise above a threshold, magnified and smeared downwards."""
    mean, spread, size, threshold, radius, sigma, keep = setting
    n, _, height, width = x.shape
    noise = np.float32(mean) + np.float32(spread) * rng.standard_normal(
        (n, 1, height, width), np.float32
    )
    flakes = zoom(noise, size)
    flakes = np.where(flakes < threshold, np.float32(0), np.minimum(flakes, 1))
    flakes = smear(flakes, int(radius), sigma, rng.uniform(-135, -45, (n,)))
    white: Images = np.maximum(x, 1.5 * grey(x) + 0.5)
    return np.float32(keep) * x + np.float32(1 - keep) * white + flakes + flakes[:, :, ::-1, ::-1]


@kind(((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)))
def frost(x: Images, setting: tuple[float, float], rng: np.random.Generator) -> Images:
    """Blend the image with a sheet of ice: ``image * a + ice * b``."""
    image, ice = setting
    n, _, height, width = x.shape
    return np.float32(image) * x + np.float32(ice) * (tint(ICE, x) * sheet(n, height, width, rng))


def sheet(n: int, height: int, width: int, rng: np.random.Generator) -> Images:
    side = max(height, width)
    haze = plasma(n, side, 1.6, rng)[:, :, :height, :width]
    rows, columns = (np.arange(length, dtype=np.float32) / side for length in (height, width))
    ice = 0.2 + 0.5 * haze
    for _ in range(NEEDLES):
        around = rng.uniform(0, 2 * np.pi, (n, 1, 1))
        inwards = around + np.pi + rng.normal(0, 0.6, (n, 1, 1))
        down = rows[:, None] - 0.5 * height / side - 0.6 * np.sin(around)
        right = columns - 0.5 * width / side - 0.6 * np.cos(around)
        along = down * np.sin(inwards) + right * np.cos(inwards)
        aside = np.abs(right * np.sin(inwards) - down * np.cos(inwards))
        length, thickness = rng.uniform(0.2, 0.7, (n, 1, 1)), rng.uniform(0.01, 0.05, (n, 1, 1))
        left = np.clip(1 - along / length, 0, 1)
        needle = np.sqrt(left) * np.exp(-((aside / (thickness * (0.3 + left))) ** 2))
        ice = np.maximum(ice, (needle * rng.uniform(0.6, 1, (n, 1, 1)))[:, None])
    return ice.astype(np.float32)


@kind(((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)))
def fog(x: Images, setting: tuple[float, float], rng: np.random.Generator) -> Images:
    """Add a cloud, and dim the sum so that its brightest pixel can be as bright as before."""
    thickness, decay = setting
    brightest: Images = x.max(axis=(1, 2, 3), keepdims=True)
    cloud = plasma(len(x), max(x.shape[-2:]), decay, rng)[:, :, : x.shape[-2], : x.shape[-1]]
    return (x + np.float32(thickness) * cloud) * brightest / (brightest + np.float32(thickness))


def plasma(n: int, side: int, decay: float, rng: np.random.Generator) -> Images:
    """Return clouds ``(n, 1, size, size)`` from 0 to 1, with ``size >= side``.

    They are made by the diamond-square algorithm on a torus. A point is the mean of its four
    neighbours on the coarser grid, plus noise that shrinks by `decay` squared with each halving.
    """
    size = max(2, 1 << (side - 1).bit_length())
    cloud = np.zeros((n, size, size))
    step, scale = size, 1.0

    def interpolate(*neighbours: Floats) -> Floats:
        noise: Floats = rng.uniform(-scale, scale, neighbours[0].shape)
        return sum(neighbours) / 4 + noise

    while step >= 2:
        half = step // 2
        corner = cloud[:, ::step, ::step]
        below = np.roll(corner, -1, axis=1)
        middle = interpolate(corner, below, np.roll(corner, -1, axis=2), np.roll(below, -1, axis=2))
        cloud[:, half::step, half::step] = middle
        cloud[:, ::step, half::step] = interpolate(
            corner, np.roll(corner, -1, 2), middle, np.roll(middle, 1, 1)
        )
        cloud[:, half::step, ::step] = interpolate(corner, below, middle, np.roll(middle, 1, 2))
        step, scale = half, scale / decay**2
    cloud -= cloud.min(axis=(1, 2), keepdims=True)
    cloud /= cloud.max(axis=(1, 2), keepdims=True)
    return cloud[:, None].astype(np.float32)


@kind(
    (
        (0.62, 0.1, 0.7, 0.7, 0.5, "water"),
        (0.65, 0.1, 0.8, 0.7, 0.5, "water"),
        (0.65, 0.3, 1, 0.69, 0.5, "water"),
        (0.65, 0.1, 0.7, 0.69, 0.6, "mud"),
        (0.65, 0.1, 0.5, 0.68, 0.6, "mud"),
    )
)
def spatter(
    x: Images, setting: tuple[float, float, float, float, float, str], rng: np.random.Generator
) -> Images:
    """Add drops where smooth noise is high: of water up to severity 3, of mud from 4 on."""
    mean, spread, size, threshold, strength, liquid = setting
    shape = (len(x), 1, *x.shape[-2:])
    noise = np.float32(mean) + np.float32(spread) * rng.standard_normal(shape, np.float32)
    drops = smooth(noise, size)
    if liquid == "water":
        return x + light_drops(drops, threshold, strength) * tint(WATER, x)
    cover = smooth((drops > threshold).astype(np.float32), strength)
    cover = np.where(cover < 0.8, 0, cover)
    return x * (1 - cover) + tint(MUD, x) * cover


def light_drops(drops: Images, threshold: float, strength: float) -> Images:
    """Return drops lit from the lower right, with brightness `strength` at the brightest point."""
    wet = drops >= threshold
    apart = (1e3, 1, 1)  # images are far from each other
    rim: Images = distance_transform_edt(wet[:, 0], sampling=apart).astype(np.float32)
    light = np.maximum(correlate(rim, LIGHT, mode="mirror"), 0)
    shade: Images = uniform_filter(light, (0, 3, 3), mode="mirror")[:, None] * np.where(
        wet, drops, 0
    )
    brightest: Images = shade.max(axis=(1, 2, 3), keepdims=True)
    return np.float32(strength) * shade / np.maximum(brightest, 1e-6)
