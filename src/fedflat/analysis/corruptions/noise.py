"""Noise: of the sensor, of few photons, of broken pixels, and in proportion to the light."""

from __future__ import annotations

import numpy as np

from fedflat.analysis.corruptions.kind import Images, kind


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
