"""A kind of corruption: a function of images, a severity from 1 to 5, and a generator.

Kinds are written for pixels from 0 to 1 with one setting per severity. The decorator `kind` makes
of them a function of uint8 images ``(N, C, H, W)`` with 1 or 3 channels. It keeps shape and type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedflat.errors import SettingError, number

Images = NDArray[np.floating[Any]]
"""Pixels from 0 to 1, ``(N, C, H, W)``."""
Bytes = NDArray[np.uint8]
Corruption = Callable[[Bytes, int, np.random.Generator], Bytes]

SEVERITIES = (1, 2, 3, 4, 5)


def kind(
    settings: Sequence[Any], *, colour: bool = False
) -> Callable[[Callable[[Images, Any, np.random.Generator], Images]], Corruption]:
    """Decorator: make a corruption of a function ``change(pixels, setting, rng)``.

    `settings` has one entry per severity. With `colour`, grey images are refused.
    """

    def make(change: Callable[[Images, Any, np.random.Generator], Images]) -> Corruption:
        @wraps(change)
        def corrupt(x: Bytes, severity: int, rng: np.random.Generator) -> Bytes:
            number(change.__name__, "severity", severity, low=1, high=len(settings), whole=True)
            check(change.__name__, x, colour=colour)
            return levels(change(x.astype(np.float32) / 255, settings[severity - 1], rng))

        return corrupt

    return make


def check(owner: str, x: Bytes, *, colour: bool = False) -> None:
    """Raise `SettingError` unless `x` is a batch of uint8 images with 1 or 3 channels.

    With `colour`, grey images are refused too.
    """
    shape = tuple(getattr(x, "shape", ()))
    if len(shape) != 4 or shape[1] not in (1, 3) or x.dtype != np.uint8:
        found = f"{shape} of {getattr(x, 'dtype', type(x).__name__)}"
        raise SettingError(
            f"{owner}: images must be uint8 of shape (N, 1 or 3, height, width), found {found}."
        )
    if colour and shape[1] == 1:
        raise SettingError(f"{owner} needs colour images, and these are grey. Leave it out.")


def levels(x: Images) -> Bytes:
    """Return pixels from 0 to 1 as bytes, rounded and clipped."""
    return np.rint(np.clip(x, 0, 1) * 255).astype(np.uint8)


def grey(x: Images) -> Images:
    """Return the luminance (ITU-R BT.601) as one channel. Grey images are not changed."""
    if x.shape[1] == 1:
        return x
    weights = np.array([0.299, 0.587, 0.114], np.float32)
    return np.tensordot(weights, x, axes=(0, 1))[:, None]
