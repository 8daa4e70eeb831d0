"""The plane through three models."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedflat.errors import SettingError
from fedflat.flatness.points import losses, measure
from fedflat.flatness.surface import Plane
from flatness.test_points import toy


def plane(*models: object, **more: int) -> Plane:
    vectors = [torch.as_tensor(w, dtype=torch.float64) for w in models]
    return Plane(dict(zip("abcd", vectors, strict=False)), **more)


def test_places_of_three_models() -> None:
    """w_3 - w_1 = (3, 0, 2) is 9 / 5 along u = (3, 4, 0) / 5 and sqrt(13 - 1.8^2) away from it."""
    found = plane((0, 0, 0), (3, 4, 0), (3, 0, 2)).corners
    assert found[:2] == [(0.0, 0.0), (5.0, 0.0)]
    assert found[2] == pytest.approx((1.8, 3.12409987), abs=1e-8)
    assert found[2][1] == pytest.approx(sqrt(13 - 1.8**2), abs=1e-12)


def test_the_grid_reaches_a_fifth_beyond_the_models() -> None:
    found = plane((0, 0, 0), (3, 4, 0), (3, 0, 2))
    assert (len(found.x), len(found.y), len(found)) == (21, 21, 21 * 21 + 3)
    assert (found.x[0], found.x[-1]) == pytest.approx((-1, 6), abs=1e-12)
    height = sqrt(13 - 1.8**2)
    assert (found.y[0], found.y[-1]) == pytest.approx((-0.2 * height, 1.2 * height), abs=1e-12)
    assert np.diff(found.x) == pytest.approx([7 / 20] * 20, abs=1e-12)
    behind = plane((0, 0), (1, 0), (-4, 1))
    assert (behind.x[0], behind.x[-1]) == pytest.approx((-5, 2), abs=1e-12)


@given(
    st.integers(2, 6).flatmap(
        lambda d: arrays(np.float64, (3, d), elements=st.floats(-10, 10, width=32))
    )
)
def test_every_model_is_hit_by_its_coordinates(w: np.ndarray) -> None:
    u, out = w[1] - w[0], w[2] - w[0]
    assume(np.linalg.norm(u) > 1e-3)
    area = sqrt(max((u @ u) * (out @ out) - (u @ out) ** 2, 0))
    assume(area > 1e-3 * np.linalg.norm(u))
    found = plane(*w)
    assert abs(float(found.u @ found.v)) < 1e-9
    assert float(found.u.norm()) == pytest.approx(1, abs=1e-12)
    assert float(found.v.norm()) == pytest.approx(1, abs=1e-12)
    for model, (x, y) in zip(w, found.corners, strict=True):
        assert found.at(x, y).numpy() == pytest.approx(model, abs=1e-12)
    for i in range(3):
        for j in range(i):
            apart = np.hypot(*np.subtract(found.corners[i], found.corners[j]))
            assert apart == pytest.approx(np.linalg.norm(w[i] - w[j]), abs=1e-9)
    assert min(found.x) < min(x for x, _ in found.corners)
    assert max(found.y) > max(y for _, y in found.corners)


def test_the_toy_problem() -> None:
    """In two dimensions the plane is all there is: every value is F at a point we can compute."""
    learner, data = toy()
    w = [(1.0, -1.0), (0.0, 1.0), (3.0, 2.0)]
    found = plane(*w, points=5)
    result = measure(learner, torch.empty(0), found, data)

    def f(p: torch.Tensor) -> float:
        x, y = p.tolist()
        return ((x - 1) ** 2 + (y + 1) ** 2 / 2 + x**2 / 2 + 2 * (y - 1) ** 2) / 2

    assert [point["name"] for point in result["points"]] == ["a", "b", "c"]
    assert [point["loss"] for point in result["points"]] == pytest.approx(
        [4.25, 1.5, 7.5], abs=1e-12
    )
    assert [(point["x"], point["y"]) for point in result["points"]] == found.corners
    assert "error" not in result
    for y, row in zip(result["y"], result["loss"], strict=True):
        assert row == pytest.approx([f(found.at(x, y)) for x in result["x"]], abs=1e-12)


def test_resumed() -> None:
    learner, data = toy()
    found = plane((1, -1), (0, 1), (3, 2), points=3)
    whole = list(losses(learner, torch.empty(0), found, data))
    rest = list(losses(learner, torch.empty(0), found, data, start=5))
    assert found.result([*map(list, whole[:5]), *rest]) == found.result(whole)


def test_float32_models_are_judged_themselves() -> None:
    w = torch.randn(3, 1000, generator=torch.Generator().manual_seed(0))
    found = Plane(dict(zip("abc", w, strict=True)))
    for place, (x, y) in enumerate(found.corners):
        assert torch.equal(found[place], w[place])
        assert torch.equal(found.at(x, y).float(), w[place])


@pytest.mark.parametrize(
    "models",
    [
        ((1, 2), (1, 2), (0, 3)),
        ((1, 2), (0, 3), (1, 2)),
        ((1, 2), (0, 3), (0, 3)),
        ((1, 2), (2, 3), (4, 5)),
        ((0, 0), (0, 0), (0, 0)),
    ],
)
def test_equal_or_collinear_models(models: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(SettingError, match="plane: a, b, c are equal or lie on one line"):
        plane(*models)


def test_collinear_but_for_rounding() -> None:
    """The mean of two float32 models is not a third direction."""
    a, b = torch.randn(2, 1000, generator=torch.Generator().manual_seed(1))
    with pytest.raises(SettingError, match="on one line"):
        Plane({"a": a, "b": b, "mean": 0.3 * a + 0.7 * b})


def test_other_refusals() -> None:
    with pytest.raises(SettingError, match="three models are needed to define a plane, found 2"):
        plane((0, 1), (1, 0))
    with pytest.raises(SettingError, match="a has 2 parameters and c has 3"):
        plane((0, 1), (1, 0), (1, 2, 3))
    with pytest.raises(SettingError, match="b has parameters that are NaN"):
        plane((0, 1), (1, float("nan")), (1, 2))
    with pytest.raises(SettingError, match="points must be a whole number of at least 2, found 1"):
        plane((0, 0), (1, 0), (0, 1), points=1)
