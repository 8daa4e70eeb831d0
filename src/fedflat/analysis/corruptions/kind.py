"""What a kind of corruption is: a function of a batch of images, a severity from 1 to 5, and a
generator.

Kinds are written on pixels from 0 to 1 with one setting for each severity; `kind` makes of that a
function on uint8 images ``(N, C, H, W)``, with 1 or 3 channels, which keeps shape and type.
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
    """Make a corruption of a function ``change(pixels, setting, rng)``; ``colour``: grey images are
    refused."""

    def make(change: Callable[[Images, Any, np.random.Generator], Images]) -> Corruption:
        @wraps(change)
        def corrupt(x: Bytes, severity: int, rng: np.random.Generator) -> Bytes:
            number(change.__name__, "severity", severity, low=1, high=len(settings), whole=True)
            check(change.__name__, x, colour=colour)
            return levels(change(x.astype(np.float32) / 255, settings[severity - 1], rng))

        return corrupt

    return make


def check(owner: str, x: Bytes, *, colour: bool = False) -> None:
    """Refuse what is not a batch of uint8 images of 1 or 3 channels, or grey where colour is
    needed."""
    shape = tuple(getattr(x, "shape", ()))
    if len(shape) != 4 or shape[1] not in (1, 3) or x.dtype != np.uint8:
        found = f"{shape} of {getattr(x, 'dtype', type(x).__name__)}"
        raise SettingError(
            f"{owner}: images must be uint8 of shape (N, 1 or 3, height, width), found {found}."
        )
    if colour and shape[1] == 1:
        raise SettingError(f"{owner} changes colours, and these images are grey. Leave it out.")


def levels(x: Images) -> Bytes:
    """Pixels from 0 to 1 as bytes, rounded; what lies outside is clipped."""
    return np.rint(np.clip(x, 0, 1) * 255).astype(np.uint8)


def grey(x: Images) -> Images:
    """The luminance (ITU-R BT.601), with one channel; grey images as they are."""
    if x.shape[1] == 1:
        return x
    weights = np.array([0.299, 0.587, 0.114], np.float32)
    return np.tensordot(weights, x, axes=(0, 1))[:, None]
