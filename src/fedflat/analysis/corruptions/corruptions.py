"""The kinds of corruption of CIFAR-10-C and CIFAR-100-C: 15 of the benchmark and 4 extra ones.

Hendrycks and Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and
Perturbations, ICLR 2019, arXiv:1903.12261. The settings of the five severities are those of the
released CIFAR images, made for 32x32 pixels. The code is our own, works on whole batches, and
samples its own random numbers. So results are close to those on the released files, not equal.
`frost` and the water of `spatter` differ most (see `fedflat.analysis.corruptions.digital`).

Grey images support all kinds except `saturate`.
"""

from __future__ import annotations

import numpy as np

from fedflat.analysis.corruptions.digital import (
    brightness,
    contrast,
    elastic_transform,
    fog,
    frost,
    jpeg_compression,
    pixelate,
    saturate,
    snow,
    spatter,
)
from fedflat.analysis.corruptions.noise_and_blur import (
    Bytes,
    Corruption,
    defocus_blur,
    gaussian_blur,
    gaussian_noise,
    glass_blur,
    impulse_noise,
    motion_blur,
    shot_noise,
    speckle_noise,
    zoom_blur,
)
from fedflat.errors import SettingError, nearest

BENCHMARK: dict[str, Corruption] = {
    kind.__name__: kind
    for kind in (
        gaussian_noise,
        shot_noise,
        impulse_noise,
        defocus_blur,
        glass_blur,
        motion_blur,
        zoom_blur,
        snow,
        frost,
        fog,
        brightness,
        contrast,
        elastic_transform,
        pixelate,
        jpeg_compression,
    )
}
EXTRA: dict[str, Corruption] = {
    kind.__name__: kind for kind in (speckle_noise, gaussian_blur, spatter, saturate)
}
KINDS = BENCHMARK | EXTRA
COLOURED = ("saturate",)
"""Kinds that need colour images."""


def corrupt(x: Bytes, kind: str, severity: int, rng: np.random.Generator) -> Bytes:
    """Return uint8 images ``(N, 1 or 3, H, W)`` corrupted with a severity from 1 to 5.

    x
        The images.
    kind
        Name of the corruption, such as "fog".
    rng
        Random generator.

    >>> white = np.full((1, 3, 4, 4), 255, np.uint8)
    >>> int(corrupt(white, "fog", 5, np.random.default_rng(0)).max())
    255
    """
    return by_name(kind)(x, severity, rng)


def by_name(kind: str) -> Corruption:
    """Return the corruption of this name."""
    if kind not in KINDS:
        raise SettingError(
            f"unknown corruption {kind!r}.{nearest(kind, KINDS)} Choose one of {', '.join(KINDS)}."
        )
    return KINDS[kind]
