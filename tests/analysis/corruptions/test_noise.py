"""Noise has the variance its setting says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import poisson

from fedflat.analysis.corruptions.noise_and_blur import (
    gaussian_noise,
    impulse_noise,
    shot_noise,
    speckle_noise,
)

LEVEL = 128
FLAT = np.full((40, 3, 32, 32), LEVEL, np.uint8)
ROUNDING = 1 / 12
COUNT = FLAT.size


def moments(found: np.ndarray) -> tuple[float, float]:
    return float(found.mean()), float(found.var())


@pytest.mark.parametrize(
    ("severity", "scale"), list(enumerate((0.04, 0.06, 0.08, 0.09, 0.10), start=1))
)
def test_gaussian(severity: int, scale: float) -> None:
    mean, variance = moments(gaussian_noise(FLAT, severity, np.random.default_rng(severity)))
    expected = (255 * scale) ** 2 + ROUNDING
    assert mean == pytest.approx(LEVEL, abs=5 * (expected / COUNT) ** 0.5)
    assert variance == pytest.approx(expected, rel=5 * (2 / COUNT) ** 0.5)


@pytest.mark.parametrize(("severity", "photons"), list(enumerate((500, 250, 100, 75, 50), start=1)))
def test_shot(severity: int, photons: int) -> None:
    """A Poisson number of mean ``photons v``. Its levels are coarse, so moments are summed after
    rounding to bytes."""
    found = shot_noise(FLAT, severity, np.random.default_rng(severity))
    counts = np.arange(10 * photons)
    chance, value = (
        poisson.pmf(counts, photons * LEVEL / 255),
        np.rint(np.minimum(counts / photons, 1) * 255),
    )
    mean = chance @ value
    variance = chance @ (value - mean) ** 2
    assert variance == pytest.approx(255**2 * (LEVEL / 255) / photons, rel=0.1)
    assert moments(found)[0] == pytest.approx(mean, abs=5 * (variance / COUNT) ** 0.5)
    assert moments(found)[1] == pytest.approx(variance, rel=6 * (2 / COUNT) ** 0.5)


@pytest.mark.parametrize(
    ("severity", "scale"), list(enumerate((0.06, 0.1, 0.12, 0.16, 0.2), start=1))
)
def test_speckle(severity: int, scale: float) -> None:
    mean, variance = moments(speckle_noise(FLAT, severity, np.random.default_rng(severity)))
    expected = (LEVEL * scale) ** 2 + ROUNDING
    assert mean == pytest.approx(LEVEL, abs=5 * (expected / COUNT) ** 0.5)
    assert variance == pytest.approx(expected, rel=5 * (2 / COUNT) ** 0.5)


@pytest.mark.parametrize(
    ("severity", "share"), list(enumerate((0.01, 0.02, 0.03, 0.05, 0.07), start=1))
)
def test_impulse(severity: int, share: float) -> None:
    found = impulse_noise(FLAT, severity, np.random.default_rng(severity))
    assert set(np.unique(found)) == {0, LEVEL, 255}
    for extreme in (0, 255):
        spread = (share / 2 / COUNT) ** 0.5
        assert (found == extreme).mean() == pytest.approx(share / 2, abs=5 * spread)


def test_black_stays_black_where_noise_is_of_the_light() -> None:
    black = np.zeros((2, 3, 8, 8), np.uint8)
    for kind in (shot_noise, speckle_noise):
        assert not kind(black, 5, np.random.default_rng(0)).any()
