"""Sharpness in a ball, to first order and by ascent, plain and adaptive."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from fedflat.errors import SettingError
from fedflat.flatness.hessian import Hessian
from fedflat.flatness.sharpness import sharpness
from flatness.networks import network, toy


def test_the_toy_problem() -> None:
    learner, model, data = toy()
    found = sharpness(Hessian(learner, model, data).objective.gradient, model.params, 0.5)
    assert found.first_order == pytest.approx(2.72487373, abs=1e-8)
    assert found.ascent == pytest.approx(2.72802047, abs=1e-8)


def test_adaptive_by_brute_force() -> None:
    """Along the edge of the ellipse ||e / w|| = rho, at half a million angles."""
    learner, model, data = toy()
    objective = Hessian(learner, model, data).objective
    found = sharpness(objective.gradient, model.params, 0.2, adaptive=True)
    angles = torch.linspace(0, 2 * math.pi, 500_000, dtype=torch.float64)
    x, y = 3 + 0.6 * angles.cos(), 2 + 0.4 * angles.sin()
    f = ((x - 1) ** 2 + 0.5 * (y + 1) ** 2 + 0.5 * x**2 + 2 * (y - 1) ** 2) / 2
    assert found.ascent == pytest.approx(float(f.max()) - 7.5, abs=1e-8)
    g = torch.tensor([3.5 * 3, 3.5 * 2], dtype=torch.float64)
    top = model.params + 0.2 * model.params * g / g.norm()
    assert found.first_order == pytest.approx(objective.loss(top) - 7.5, abs=1e-12)


def test_at_a_saddle_and_with_zeros() -> None:
    """A gradient of zero moves nothing; neither does |w| = 0."""

    def slope(w: Tensor) -> tuple[float, Tensor]:
        return float(w[0] ** 2 + 3 * w[1]), torch.stack(
            [2 * w[0], torch.tensor(3.0, dtype=w.dtype)]
        )

    still = sharpness(lambda w: (float(w @ w), 2 * w), torch.zeros(2), 1.0)
    assert (still.first_order, still.ascent) == (0.0, 0.0)
    w = torch.tensor([2.0, 0.0], dtype=torch.float64)
    assert sharpness(slope, w, 0.5, adaptive=True).ascent == pytest.approx(9 - 4)


def test_ascent_is_never_below_first_order() -> None:
    learner, model, data = network("group norm")
    objective = Hessian(learner, model, data).objective
    for rho in (0.01, 0.3, 3.0):
        found = sharpness(objective.gradient, model.params, rho)
        assert found.ascent >= found.first_order
    assert found.ascent > 0


def test_refusal() -> None:
    with pytest.raises(SettingError, match="rho must be a number above 0, found 0"):
        sharpness(lambda w: (0.0, w), torch.ones(2), 0)
