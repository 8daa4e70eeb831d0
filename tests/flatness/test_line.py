"""The line through two models and the barrier between them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedflat as ff
from fedflat.client.learner import Learner
from fedflat.data.examples import ClientData, Examples
from fedflat.errors import SettingError
from fedflat.flatness.points import Value, losses, measure
from fedflat.flatness.surface import Line, barrier
from flatness.test_points import toy

A, B = (torch.tensor(w, dtype=torch.float64) for w in ((1.0, -1.0), (0.0, 1.0)))


def test_the_toy_problem() -> None:
    """F from w_1 = (1, -1) to w_2 = (0, 1): 1.5 at 0, 1.4375 at 0.5, 4.25 at 1; below the chord, no
    barrier."""
    learner, data = toy()
    result = measure(learner, torch.empty(0), Line(A, B), data)
    at = dict(zip(result["gamma"], result["loss"], strict=True))
    assert (at[0.0], at[0.5], at[1.0]) == pytest.approx((1.5, 1.4375, 4.25), abs=1e-12)
    assert at[0.5] - (at[0.0] + at[1.0]) / 2 == pytest.approx(-1.4375, abs=1e-12)
    assert (result["gamma"][0], result["gamma"][-1], len(result["gamma"])) == (-1, 2, 61)
    assert result["barrier"] == 0
    assert (result["a"], result["b"]) == ({"loss": 4.25}, {"loss": 1.5})
    assert "error" not in result


def test_both_models_are_on_the_line_exactly() -> None:
    a, b = torch.randn(2, 50, generator=torch.Generator().manual_seed(0))
    line = Line(a, b, steps=7)
    assert torch.equal(line[7], b)
    assert torch.equal(line[14], a)
    assert torch.allclose(line[0], 2 * b - a)
    assert torch.allclose(line[len(line) - 1], 2 * a - b)


def test_a_barrier_between_two_equal_minima() -> None:
    """Two hidden units swapped: both models are the same function, their mean is not."""
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    data = ClientData(Examples(x, torch.tensor([0, 1]), 2), torch.arange(2))
    learner = Learner(ff.mlp([2]), (2,), 2, seed=0, dtype="float64")
    eye, swap = torch.eye(2) * 4, torch.eye(2).flip(0) * 4
    zero = torch.zeros(2)
    one = torch.cat([part.reshape(-1) for part in (eye, zero, eye, zero)])
    other = torch.cat([part.reshape(-1) for part in (swap, zero, swap, zero)])
    result = measure(learner, torch.empty(0), Line(one, other, steps=2), data)
    assert result["a"] == result["b"]
    # In the middle every weight is 2: all scores are equal, and the loss is log 2.
    assert result["barrier"] == pytest.approx(
        torch.log(torch.tensor(2.0)).item() - result["a"]["loss"], abs=1e-7
    )
    assert result["a"]["error"] == 0


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_barriers(values: list[float]) -> None:
    """Never negative; the highest value above the chord; the same when walked backwards."""
    height = barrier(values)
    assert height is not None
    n = len(values) - 1
    above = [v - ((1 - i / n) * values[0] + i / n * values[-1]) for i, v in enumerate(values)]
    assert height == pytest.approx(max(0, *above), abs=1e-6)
    assert height >= 0
    assert barrier(values[::-1]) == pytest.approx(height, abs=1e-6)


def test_a_loss_that_is_not_finite_leaves_no_barrier() -> None:
    line = Line(A, B, steps=1)
    inside = line.result([Value(1.0), Value(None), Value(2.0), Value(1.0)])
    assert inside["barrier"] is None
    outside = line.result([Value(None), Value(1.0), Value(2.0), Value(1.0)])
    assert outside["barrier"] == 0


def test_resumed() -> None:
    learner, data = toy()
    line = Line(A, B, steps=3)
    whole = list(losses(learner, torch.empty(0), line, data))
    values = losses(learner, torch.empty(0), line, data)
    begun = [list(next(values)) for _ in range(4)]  # as JSON gives them back
    rest = list(losses(learner, torch.empty(0), line, data, start=4))
    assert line.result([*begun, *rest]) == line.result(whole)


def test_refusals() -> None:
    with pytest.raises(SettingError, match="both models are the same"):
        Line(A, A.clone())
    with pytest.raises(SettingError, match="has 2 parameters and the second model has 3"):
        Line(A, torch.zeros(3))
    with pytest.raises(SettingError, match="the second model has parameters that are NaN"):
        Line(A, A * float("inf"))
    with pytest.raises(SettingError, match="steps must be a whole number of at least 1, found 0"):
        Line(A, B, steps=0)
