"""Blurs against kernels written out, image by image."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from scipy.signal import convolve2d

from analysis.corruptions.images import natural
from fedflat.analysis.corruptions.noise_and_blur import (
    defocus_blur,
    disk,
    gaussian_blur,
    glass_blur,
    mirror,
    motion_blur,
    sample_bilinear,
    smear,
    zoom,
    zoom_blur,
)

IMAGES = natural(3)


def fresh() -> np.random.Generator:
    return np.random.default_rng(0)


def close(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal but for rounding to bytes."""
    assert np.abs(found.astype(float) - expected).max() <= 0.502


@pytest.mark.parametrize(("severity", "sigma"), list(enumerate((0.4, 0.6, 0.7, 0.8, 1), start=1)))
def test_gaussian_against_scipy_image_by_image(severity: int, sigma: float) -> None:
    found = gaussian_blur(IMAGES, severity, fresh())
    for image, blurred in zip(IMAGES, found, strict=True):
        for plane, other in zip(image, blurred, strict=True):
            close(other, gaussian_filter(plane.astype(float), sigma, mode="nearest", truncate=4))


def test_a_disk_of_one_pixel_is_the_small_bell() -> None:
    side, middle = np.exp(-1 / (2 * 0.4**2)), 1.0
    line = np.array([side, middle, side]) / (2 * side + middle)
    assert disk(0.3, 0.4) == pytest.approx(np.outer(line, line), abs=1e-7)


def test_larger_disks() -> None:
    cross = disk(1, 0.2)
    assert cross.sum() == pytest.approx(1, abs=1e-6)
    assert cross[2, 2] == pytest.approx(0.2, abs=1e-4)
    assert cross[1, 2] == pytest.approx(0.2, abs=1e-4)
    assert cross[1, 1] < 1e-4
    assert disk(1.5, 0.1)[1:4, 1:4] == pytest.approx(np.full((3, 3), 1 / 9), abs=1e-6)


def test_defocus_is_the_mean_over_the_disk() -> None:
    found = defocus_blur(IMAGES, 5, fresh())
    for image, blurred in zip(IMAGES, found, strict=True):
        for plane, other in zip(image, blurred, strict=True):
            around = np.pad(plane.astype(float), 1, mode="reflect")
            expected = convolve2d(around, np.full((3, 3), 1 / 9), mode="valid")
            assert np.abs(other - expected).max() < 0.51


def test_glass_without_blur_moves_pixels_by_one_at_most() -> None:
    """Severity 1 blurs by 0.05, which is nothing; the first two rows and columns stay."""
    numbered = np.arange(32 * 32).reshape(32, 32)
    coded = np.stack([numbered // 32 * 8, numbered % 32 * 8, np.zeros_like(numbered)]).astype(
        np.uint8
    )[None]
    found = glass_blur(np.repeat(coded, 50, axis=0), 1, fresh())
    rows, columns = found[:, 0] // 8, found[:, 1] // 8
    up, left = np.arange(32)[:, None] - rows, np.arange(32) - columns
    assert set(np.unique(up)) == set(np.unique(left)) == {0, 1}
    assert not up[:, :2].any()
    assert not left[:, :, :2].any()
    for moved in (up, left):
        inside = moved[:, 2:, 2:]
        assert inside.mean() == pytest.approx(0.5, abs=5 * 0.5 / inside.size**0.5)


def test_smear_of_a_point() -> None:
    """Half a Gaussian, from the point to the side the angle says, of sum 1."""
    point = np.zeros((3, 1, 31, 31), np.float32)
    point[:, :, 15, 15] = 1
    level, upwards, slant = smear(point, 4, 2.0, np.array([0.0, 90.0, 45.0]))[:, 0]
    half = np.exp(-(np.arange(9) ** 2) / 8)
    half /= half.sum()
    assert level[15, 15:6:-1] == pytest.approx(half, abs=1e-6)
    assert upwards[15:6:-1, 15] == pytest.approx(half, abs=1e-6)
    assert [level.sum(), upwards.sum(), slant.sum()] == pytest.approx([1, 1, 1], abs=1e-6)
    on_diagonal = slant[np.arange(31), np.arange(31)].sum()
    assert on_diagonal == pytest.approx(1, abs=1e-6)


def test_blurs_keep_a_flat_image() -> None:
    flat = np.full((2, 3, 32, 32), 77, np.uint8)
    for kind in (gaussian_blur, defocus_blur, glass_blur, motion_blur, zoom_blur):
        for severity in range(1, 6):
            assert np.array_equal(kind(flat, severity, fresh()), flat)


def test_zoom() -> None:
    """A ramp about the centre is made flatter; a factor of 1 changes nothing; 2 shows the middle
    half."""
    ramp = np.broadcast_to((np.arange(9) - 4.0), (1, 1, 9, 9)).astype(np.float32)
    assert np.array_equal(zoom(ramp, 1.0), ramp)
    assert zoom(ramp, 1.25) == pytest.approx(ramp / 1.25, abs=1e-6)
    assert zoom(ramp.transpose(0, 1, 3, 2), 2.0)[0, 0, :, 0] == pytest.approx(
        (np.arange(9) - 4) / 2, abs=1e-6
    )


def test_zoom_blur_of_a_ramp() -> None:
    """The mean of the ramp and of its flatter versions: the mean of 1 and 1, 1/1.01, ... 1/1.05."""
    ramp = np.broadcast_to(np.arange(32) * 8, (1, 3, 32, 32)).astype(np.uint8)
    factor = (1 + sum(1 / (1 + k / 100) for k in range(6))) / 7
    centre = 15.5 * 8
    close(zoom_blur(ramp, 1, fresh()), centre + (ramp - centre) * factor)


def test_looking_up() -> None:
    x = fresh().random((2, 3, 5, 6)).astype(np.float32)
    rows, columns = (np.broadcast_to(part, (2, 5, 6)).astype(float) for part in np.mgrid[:5, :6])
    assert np.array_equal(sample_bilinear(x, rows, columns), x)
    between = sample_bilinear(x, rows + 0.25, columns)[:, :, 1, 2]
    assert between == pytest.approx(0.75 * x[:, :, 1, 2] + 0.25 * x[:, :, 2, 2], abs=1e-6)
    beyond = sample_bilinear(x, rows - 2, columns)
    assert beyond[:, :, 0] == pytest.approx(x[:, :, 2], abs=1e-6)
    for length in (1, 2, 5):
        place = np.arange(-length + 1, length)
        padded = (
            np.pad(np.arange(length), (length - 1, 0), mode="reflect")
            if length > 1
            else np.zeros(1)
        )
        assert np.array_equal(mirror(place, length), padded)
