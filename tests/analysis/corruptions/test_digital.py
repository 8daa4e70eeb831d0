"""Brightness, colour, elastic deformation, pixelation and JPEG against closed forms and other
libraries."""

from __future__ import annotations

import colorsys
import sys
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from analysis.corruptions.images import natural
from fedflat.analysis.corruptions.digital import (
    affine,
    brightness,
    contrast,
    elastic_transform,
    jpeg_compression,
    pixelate,
    saturate,
)
from fedflat.errors import SettingError

IMAGES = natural(3)
GREY = natural(2, channels=1)
PIXELS = [
    (255, 0, 0),
    (0, 0, 0),
    (255, 255, 255),
    (90, 90, 90),
    (10, 200, 30),
    (120, 40, 77),
    (1, 0, 0),
    (3, 9, 255),
]


def fresh() -> np.random.Generator:
    return np.random.default_rng(0)


def of_pixels() -> np.ndarray:
    return np.array(PIXELS, np.uint8).T.reshape(1, 3, 2, 4)


def by_colorsys(severity_change: object) -> np.ndarray:
    rows = []
    for pixel in PIXELS:
        hue, saturation, value = colorsys.rgb_to_hsv(*(part / 255 for part in pixel))
        rows.append(colorsys.hsv_to_rgb(*severity_change(hue, saturation, value)))  # type: ignore[operator]
    return 255 * np.array(rows).T.reshape(1, 3, 2, 4)


@pytest.mark.parametrize(
    ("severity", "more"), list(enumerate((0.05, 0.1, 0.15, 0.2, 0.3), start=1))
)
def test_brightness_raises_the_value(severity: int, more: float) -> None:
    expected = by_colorsys(lambda h, s, v: (h, s, min(v + more, 1)))
    assert np.abs(brightness(of_pixels(), severity, fresh()) - expected).max() <= 0.51


def test_brightness_of_a_grey_image_is_addition() -> None:
    assert np.abs(brightness(GREY, 5, fresh()) - np.minimum(GREY + 0.3 * 255, 255)).max() <= 0.51


@pytest.mark.parametrize(
    ("severity", "factor", "more"),
    [(1, 0.3, 0), (2, 0.1, 0), (3, 1.5, 0), (4, 2, 0.1), (5, 2.5, 0.2)],
)
def test_saturation(severity: int, factor: float, more: float) -> None:
    expected = by_colorsys(lambda h, s, v: (h, min(s * factor + more, 1), v))
    assert np.abs(saturate(of_pixels(), severity, fresh()) - expected).max() <= 0.51


@pytest.mark.parametrize(
    ("severity", "factor"), list(enumerate((0.75, 0.5, 0.4, 0.3, 0.15), start=1))
)
def test_contrast_shrinks_deviations_of_each_channel(severity: int, factor: float) -> None:
    found = contrast(IMAGES, severity, fresh()).astype(float)
    for image, other in zip(IMAGES.astype(float), found, strict=True):
        for plane, changed in zip(image, other, strict=True):
            assert np.abs(changed - (plane.mean() + factor * (plane - plane.mean()))).max() <= 0.51


def with_pillow(image: np.ndarray) -> Image.Image:
    return Image.fromarray(
        image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0))
    )


def planes(image: Image.Image) -> np.ndarray:
    return np.atleast_3d(np.asarray(image)).transpose(2, 0, 1)


@pytest.mark.parametrize(
    ("severity", "share"), list(enumerate((0.95, 0.9, 0.85, 0.75, 0.65), start=1))
)
@pytest.mark.parametrize("images", [IMAGES, GREY, natural(2, side=28), natural(2, side=64)])
def test_pixelate_against_pillow(severity: int, share: float, images: np.ndarray) -> None:
    side = images.shape[-1]
    small = int(side * share)
    for image, found in zip(images, pixelate(images, severity, fresh()), strict=True):
        coarse = with_pillow(image).resize((small, small), Image.Resampling.BOX)
        expected = planes(coarse.resize((side, side), Image.Resampling.BOX)).astype(int)
        assert np.abs(found - expected).max() <= 1  # means that end in a half
        assert np.abs(found - expected).mean() < 0.5


@pytest.mark.parametrize(("severity", "quality"), list(enumerate((80, 65, 58, 50, 40), start=1)))
@pytest.mark.parametrize("images", [IMAGES, GREY])
def test_jpeg_against_pillow(severity: int, quality: int, images: np.ndarray) -> None:
    for image, found in zip(images, jpeg_compression(images, severity, fresh()), strict=True):
        file = BytesIO()
        with_pillow(image).save(file, "JPEG", quality=quality)
        assert np.array_equal(found, planes(Image.open(file)))


def test_only_jpeg_needs_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(
        SettingError,
        match=r"jpeg_compression needs Pillow, which is not installed\. Install fedflat\[vision\]",
    ):
        jpeg_compression(IMAGES, 1, fresh())
    pixelate(IMAGES, 1, fresh())


def test_affine_maps_take_moved_corners_back() -> None:
    rng, again = np.random.default_rng(3), np.random.default_rng(3)
    maps = affine(6, 32, 32, 2.5, rng)
    corners = np.array([[26, 26], [26, 6], [6, 6]])
    moved = corners + again.uniform(-2.5, 2.5, (6, 3, 2))
    found = np.concatenate([moved, np.ones((6, 3, 1))], axis=2) @ maps
    assert found == pytest.approx(np.broadcast_to(corners, (6, 3, 2)), abs=1e-9)
    still = affine(2, 32, 32, 0.0, rng)
    assert still == pytest.approx(np.broadcast_to([[1, 0], [0, 1], [0, 0]], (2, 3, 2)), abs=1e-9)


def test_elastic_moves_pixels_and_keeps_colours() -> None:
    """A flat image stays; no value appears that lies outside those of the image."""
    flat = np.full((2, 3, 32, 32), 99, np.uint8)
    for severity in range(1, 6):
        assert np.array_equal(elastic_transform(flat, severity, fresh()), flat)
        found = elastic_transform(IMAGES, severity, fresh())
        assert np.all(found.min(axis=(2, 3)) >= IMAGES.min(axis=(2, 3)))
        assert np.all(found.max(axis=(2, 3)) <= IMAGES.max(axis=(2, 3)))


def test_elastic_of_severity_one_keeps_straight_lines() -> None:
    """It does not bend: a ramp stays a ramp away from the border."""
    ramp = np.broadcast_to(np.arange(32) * 8, (5, 3, 32, 32)).astype(np.uint8)
    found = elastic_transform(ramp, 1, fresh()).astype(float)[:, 0, 8:24, 8:24]
    assert np.abs(np.diff(found, n=2, axis=-1)).max() <= 2
    assert np.abs(np.diff(found, n=2, axis=-2)).max() <= 2
    bent = elastic_transform(ramp, 5, fresh()).astype(float)[:, 0, 8:24, 8:24]
    assert np.abs(np.diff(bent, n=2, axis=-1)).max() > 5
