"""Filter-normalised surfaces."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import fedflat as ff
from fedflat.client.learner import Learner
from fedflat.core.flat import FlatModule
from fedflat.errors import SettingError
from fedflat.flatness.points import losses, measure
from fedflat.flatness.surface import Surface, direction
from flatness.test_points import examples, toy
from quadratic import Quadratic, mean_value


def convolutional(seed: int) -> FlatModule:
    torch.manual_seed(seed)
    layers = [
        nn.Conv2d(3, 4, 3),
        nn.GroupNorm(2, 4),
        nn.Flatten(),
        nn.Linear(16, 5),
        nn.BatchNorm1d(5),
    ]
    return FlatModule(nn.Sequential(*layers))


def named(flat: FlatModule, vector: torch.Tensor) -> dict[str, np.ndarray]:
    flat.load(vector)
    return {name: p.detach().double().numpy().copy() for name, p in flat.module.named_parameters()}


@pytest.mark.parametrize("which", [0, 1])
def test_every_filter_has_the_models_length(which: int) -> None:
    flat = convolutional(0)
    w = flat.model().params
    d = named(flat, direction(w, flat.layout, 3, which))
    model = named(flat, w)
    assert set(d) == {
        "0.weight",
        "0.bias",
        "1.weight",
        "1.bias",
        "3.weight",
        "3.bias",
        "4.weight",
        "4.bias",
    }
    for name, value in d.items():
        if name in ("0.weight", "3.weight"):
            for row, other in zip(value, model[name], strict=True):
                assert np.sqrt((row**2).sum()) == pytest.approx(np.sqrt((other**2).sum()), rel=1e-5)
        else:
            assert not value.any()


def test_models_compared_are_looked_at_along_the_same_directions() -> None:
    """Before scaling: filter by filter, one direction is a multiple of the other."""
    one, other = convolutional(0), convolutional(1)
    first, second = (
        named(one, direction(f.model().params, one.layout, 5, 0)) for f in (one, other)
    )
    for name in ("0.weight", "3.weight"):
        for d, e in zip(first[name], second[name], strict=True):
            assert not np.allclose(d, e)
            assert d / np.linalg.norm(d) == pytest.approx(e / np.linalg.norm(e), abs=1e-5)


def test_directions_are_drawn_by_the_seed_and_are_two() -> None:
    flat = convolutional(0)
    w = flat.model().params
    one = Surface(w, flat.layout, points=3, seed=1)
    same, other = (Surface(w, flat.layout, points=3, seed=seed) for seed in (1, 2))
    assert torch.equal(one.first, same.first)
    assert torch.equal(one.second, same.second)
    for different in (one.second, other.first, other.second):
        assert abs(float(torch.cosine_similarity(one.first, different, dim=0))) < 0.5
    assert torch.allclose(direction(w.double(), flat.layout, 1, 0).float(), one.first, rtol=1e-5)


def test_a_direction_is_gaussian_before_scaling() -> None:
    """Of one long row the direction is the draw itself but for its length."""
    flat = FlatModule(nn.Linear(20000, 1, bias=False))
    d = direction(torch.ones(20000), flat.layout, 0, 0)
    assert float(d.norm()) == pytest.approx(20000**0.5, rel=1e-5)
    assert float(d.mean()) == pytest.approx(0, abs=4 / 20000**0.5)
    assert float(d.pow(4).mean()) == pytest.approx(3, abs=4 * (96 / 20000) ** 0.5)


def test_a_filter_of_zeros_stays() -> None:
    flat = FlatModule(nn.Linear(3, 2, bias=False))
    w = torch.tensor([0.0, 0, 0, 1, 2, 2])
    d = direction(w, flat.layout, 0, 0)
    assert torch.equal(d[:3], torch.zeros(3))
    assert float(d[3:].norm()) == pytest.approx(3, rel=1e-6)


def test_the_grid() -> None:
    flat = convolutional(0)
    w = flat.model().params
    surface = Surface(w, flat.layout)
    assert (len(surface), len(surface.axis), surface.axis[0], surface.axis[-1]) == (
        51 * 51,
        51,
        -1,
        1,
    )
    assert torch.equal(surface[51 * 51 // 2], w)
    small = Surface(w, flat.layout, points=5, span=0.5)
    assert small.axis == [-0.5, -0.25, 0, 0.25, 0.5]
    assert torch.allclose(small[5 * 1 + 3], w + 0.25 * small.first - 0.25 * small.second)


def test_a_quadratic_whose_surface_is_known() -> None:
    """Rows of one number: the direction is plus or minus w_i, and F at (w_1 (1 + x s + y t), ...)
    is by hand."""
    _, data = toy()
    module = Quadratic(np.array([3.0, 2.0]), layers={"w": 2})
    learner = Learner(module, (6,), 1, seed=0, loss=mean_value, dtype="float64")
    surface = Surface(learner.initial().params, learner.flat.layout, points=3, span=0.5)
    assert surface.first.abs().tolist() == pytest.approx([3, 2], abs=1e-9)
    assert surface.second.abs().tolist() == pytest.approx([3, 2], abs=1e-9)
    result = measure(learner, torch.empty(0), surface, data)
    for y, row in zip(result["y"], result["loss"], strict=True):
        for x, loss in zip(result["x"], row, strict=True):
            a, b = (surface.params + x * surface.first + y * surface.second).tolist()
            f = ((a - 1) ** 2 + (b + 1) ** 2 / 2 + a**2 / 2 + 2 * (b - 1) ** 2) / 2
            assert loss == pytest.approx(f, abs=1e-9)
    assert result["center"] == {"loss": 7.5}
    assert result["loss"][1][1] == 7.5
    assert result["length"] == pytest.approx(13**0.5)


def test_loss_and_error_resumed() -> None:
    learner, data = Learner(ff.mlp([5]), (4,), 3, seed=0), examples(30)
    surface = Surface(learner.initial().params, learner.flat.layout, points=3)
    whole = list(losses(learner, torch.empty(0), surface, data))
    rest = list(losses(learner, torch.empty(0), surface, data, start=4))
    result = surface.result([*map(list, whole[:4]), *rest])
    assert result == surface.result(whole)
    assert np.shape(result["loss"]) == np.shape(result["error"]) == (3, 3)
    assert result["center"] == {"loss": result["loss"][1][1], "error": result["error"][1][1]}


def test_refusals() -> None:
    flat = convolutional(0)
    w = flat.model().params
    with pytest.raises(SettingError, match=r"points must be odd.*found 50\. Use 51"):
        Surface(w, flat.layout, points=50)
    with pytest.raises(SettingError, match="at least 3, found 1"):
        Surface(w, flat.layout, points=1)
    with pytest.raises(SettingError, match="span must be a number above 0"):
        Surface(w, flat.layout, span=0)
    with pytest.raises(SettingError, match="the model has parameters that are NaN"):
        Surface(w * float("nan"), flat.layout)
    with pytest.raises(SettingError, match="the point has 2 parameters"):
        Surface(w[:2], flat.layout)
