"""How much the loss can rise within a ball around the model.

    S(w) = max_{||T^-1 e|| <= rho}  L(w + e) - L(w)

with T = 1 (SAM's ball), or T = |w| element by element (ASAM's ball without its eta: Kwon et al.,
ICML 2021, Definition 2 with the element-wise operator and p = 2). ASAM's ball does not change when
layers are rescaled against each other. To first order the maximum is at ``e = rho T^2 g / ||T
g||``. Projected gradient ascent starts there and makes steps of length `rho`. Its best point is a
lower bound of the maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.core.flat import unit
from fedflat.errors import number

STEPS = 20

Slope = Callable[[Tensor], tuple[float, Tensor]]
"""Maps a point to the loss and its gradient there."""


@dataclass(frozen=True)
class Rise:
    """How much the loss rises: to first order, and at the best point of the ascent."""

    first_order: float
    ascent: float


def sharpness(
    slope: Slope, w: Tensor, rho: float, *, steps: int = STEPS, adaptive: bool = False
) -> Rise:
    """Return the rise of the loss in a ball of radius `rho` around `w`.

    With `adaptive`, coordinates are scaled by ``|w|``. `steps` is the number of ascent steps.
    """
    number("sharpness", "rho", rho, low=0, open_low=True)
    number("sharpness", "steps", steps, low=1, whole=True)
    scale = w.abs() if adaptive else torch.ones_like(w)
    start, gradient = slope(w)
    inside = torch.zeros_like(w)
    rises = []
    for _ in range(steps):
        inside = _project(inside + rho * unit(scale * gradient), rho)
        loss, gradient = slope(w + scale * inside)
        rises.append(loss - start)
    return Rise(rises[0], max(rises))


def _project(e: Tensor, rho: float) -> Tensor:
    norm = torch.linalg.vector_norm(e)
    return e if norm <= rho else e * (rho / norm)
