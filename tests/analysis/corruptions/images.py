"""Smooth synthetic images with edges, made from a seed."""

from __future__ import annotations

import numpy as np


def natural(count: int = 24, channels: int = 3, side: int = 32, seed: int = 0) -> np.ndarray:
    """Each channel a sum of waves, the long ones strong; a darker disk in the middle. uint8 ``(N,
    C, H, W)``."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side] / 32
    total = np.zeros((count, channels, side, side))
    shared = np.zeros((count, 1, side, side))
    for field in (total, shared):
        for waves in range(1, 9):
            shape = (*field.shape[:2], 1, 1)
            across, down, phase = (
                rng.normal(0, waves, shape),
                rng.normal(0, waves, shape),
                rng.uniform(0, 7, shape),
            )
            field += np.cos(2 * np.pi * (across * x + down * y) + phase) / waves
    disk = np.hypot(x - 0.5, y - 0.5) < 0.3
    image = 130 + 20 * total + 30 * shared - 50 * disk
    return image.clip(0, 255).round().astype(np.uint8)
