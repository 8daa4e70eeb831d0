"""Proximal term, clip, weight decay and momentum: each by its formula, and in their order."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from client.stages import compose, vector, visiting
from fedflat.client.gradient_transforms import Clip, Momentum, Prox, WeightDecay
from fedflat.core.schedules import decay

vectors = st.lists(st.floats(-50, 50), min_size=3, max_size=3).map(lambda v: vector(*v))
W, SENT, G = vector(3.0, -1.0, 2.0), vector(1.0, 1.0, 1.0), vector(3.0, 4.0, 0.0)


def given_gradient(w: Tensor) -> Tensor:
    return G


@given(vectors, vectors, st.floats(0, 3))
def test_the_pull_is_the_gradient_of_half_the_square(w: Tensor, sent: Tensor, mu: float) -> None:
    point = w.clone().requires_grad_()
    (expected,) = torch.autograd.grad(mu / 2 * (point - sent).square().sum(), point)
    piece = Prox(mu)
    found = piece.gradient(visiting(piece, sent), torch.zeros_like, w)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@given(vectors, st.floats(0.01, 100))
def test_a_direction_is_no_longer_than_the_limit(g: Tensor, norm: float) -> None:
    piece = Clip(norm)
    found = piece.gradient(visiting(piece, W), lambda w: g, W)
    length = float(g.norm())
    torch.testing.assert_close(
        found, g if length <= norm else g * norm / length, rtol=1e-12, atol=1e-12
    )
    if length < norm:
        assert torch.equal(found, g)


def test_each_row_of_a_stack_has_its_own_limit_and_what_is_no_number_stays_none() -> None:
    piece = Clip(2.5)
    rows = torch.stack([G, G / 4])
    found = piece.gradient(visiting(piece, W), lambda w: rows, W)
    torch.testing.assert_close(found, torch.stack([G / 2, G / 4]))
    wrong = vector(float("nan"), 0.0, 0.0)
    assert piece.gradient(visiting(piece, W), lambda w: wrong, W).isnan().all()


def test_schedules_are_read_in_their_round() -> None:
    late = {"round": 2}
    for piece, expected in [
        (Prox(decay(1.0, 0.5)), G + 0.25 * (W - SENT)),
        (WeightDecay(decay(1.0, 0.5)), G + 0.25 * W),
        (Clip(decay(4.0, 0.5)), G / 5),
    ]:
        torch.testing.assert_close(
            piece.gradient(visiting(piece, SENT, **late), given_gradient, W), expected
        )


def test_momentum_gathers_and_starts_anew() -> None:
    piece = Momentum(0.5)
    for _ in range(2):
        v = visiting(piece, W)
        piece.begin(v, W)
        found = [piece.gradient(v, given_gradient, W) for _ in range(3)]
        piece.end(v, W)
        for m, times in zip(found, (1, 1.5, 1.75), strict=True):
            torch.testing.assert_close(m, times * G)
        assert v.state == {}


def test_kept_momentum() -> None:
    piece = Momentum(0.5, keep=True)
    v = visiting(piece, W, state={"m": 4 * G})
    piece.begin(v, W)
    torch.testing.assert_close(piece.gradient(v, given_gradient, W), 3 * G)
    piece.end(v, W)
    torch.testing.assert_close(v.state["m"], 3 * G)


def test_the_order_is_pull_clip_decay_momentum() -> None:
    pieces = (Prox(1.0), Clip(1.0), WeightDecay(0.1), Momentum(0.9))
    stack = [(piece, visiting(piece, SENT)) for piece in pieces]
    for piece, v in stack:
        piece.begin(v, W)
    step = compose(stack, given_gradient)
    pulled = G + (W - SENT)
    expected = pulled / pulled.norm() + 0.1 * W
    torch.testing.assert_close(step(W), expected)
    torch.testing.assert_close(step(W), 1.9 * expected)


@pytest.mark.parametrize(
    "wrong", [lambda: Prox(-1), lambda: Clip(0), lambda: WeightDecay(-0.1), lambda: Momentum(1.1)]
)
def test_ranges(wrong: object) -> None:
    with pytest.raises(ValueError, match="must be a number"):
        wrong()  # type: ignore[operator]
