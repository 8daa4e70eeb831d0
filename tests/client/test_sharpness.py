"""SAM and ASAM by their formulas, on gradients written by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from client.stages import PLANE, Asked, vector, visiting
from fedflat.client.sharpness import Asam, LastSam, LayerwiseSam, Sam, weights
from fedflat.core.flat import Layout
from fedflat.core.schedules import warmup
from fedflat.errors import SettingError

W = vector(3.0, -0.5, 2.0)
vectors = st.lists(st.floats(-10, 10), min_size=3, max_size=3).map(lambda v: vector(*v))


TINY = 1e-12
"""Is added to a norm, so that a gradient of 0 is no division by 0."""


def rounding(w: Tensor, eps: Tensor) -> float:
    """How far two ways to compute ``w + eps`` may be apart.

    The sum and its difference to ``w`` round once each, ``eps`` at each of its products, the norm
    of three numbers and the quotient: fewer than 16 times, each by half a unit in the last place of
    the largest number.
    """
    return 16 * torch.finfo(w.dtype).eps / 2 * float(w.abs().max() + eps.abs().max())


def quadratic(w: Tensor) -> Tensor:
    return vector(2.0, 1.0, 4.0) * (w - 1)


def ask(
    piece: Sam | Asam, w: Tensor, gradient: object = quadratic, **more: object
) -> tuple[Asked, Tensor]:
    v = visiting(piece, w, **more)
    asked = Asked(gradient)  # type: ignore[arg-type]
    assert torch.equal(piece.begin(v, w), w)
    return asked, piece.gradient(v, asked, w)


@given(vectors, st.floats(0, 2))
def test_sam_climbs_rho_along_the_gradient(w: Tensor, rho: float) -> None:
    asked, u = ask(Sam(rho), w)
    here, there = asked.places
    g = quadratic(w)
    assert torch.equal(here, w)
    eps = rho * g / (g.norm() + TINY)
    torch.testing.assert_close(there, w + eps, rtol=0, atol=rounding(w, eps))
    if float(g.norm()) > 1e-3:  # where TINY shortens it by less than TINY / 1e-3 of rho
        assert float((there - w).norm()) == pytest.approx(
            rho, abs=2 * TINY / 1e-3 + rounding(w, eps)
        )
    assert torch.equal(u, quadratic(there))


@pytest.mark.parametrize("piece", [Sam(0.5), Asam(0.5)])
def test_where_the_gradient_is_0_nothing_is_climbed(piece: Sam | Asam) -> None:
    asked, u = ask(piece, W, torch.zeros_like)
    assert torch.equal(asked.places[1], W)
    assert not u.any()


@given(vectors, st.floats(0, 2), st.floats(0, 1))
def test_asam_scales_weights_and_leaves_biases(w: Tensor, rho: float, eta: float) -> None:
    asked, u = ask(Asam(rho, eta), w)
    g = quadratic(w)
    scale = torch.stack([w[0].abs() + eta, w[1].abs() + eta, torch.tensor(1.0)])
    eps = rho * scale**2 * g / ((scale * g).norm() + TINY)
    torch.testing.assert_close(asked.places[1], w + eps, rtol=0, atol=rounding(w, eps))
    assert torch.equal(u, quadratic(asked.places[1]))
    # In its own coordinates the step has length rho; dividing by the scale enlarges the rounding.
    if float((scale * g).norm()) > 1e-3 and float(scale.min()) > 1e-3:
        found = float(((asked.places[1] - w) / scale).norm())
        assert found == pytest.approx(rho, abs=2 * TINY / 1e-3 + rounding(w, eps) / 1e-3)


def test_elementwise_asam_scales_everything_and_has_no_eta() -> None:
    eps = [ask(Asam(0.5, eta, "elementwise"), W)[0].places[1] - W for eta in (0.0, 0.7)]
    g = quadratic(W)
    torch.testing.assert_close(eps[0], 0.5 * W**2 * g / (W * g).norm())
    assert torch.equal(eps[0], eps[1])


def test_a_radius_may_change_with_the_round() -> None:
    lengths = [
        float((ask(Sam(warmup(0.0, 1.0, 4)), W, round=t)[0].places[1] - W).norm()) for t in range(6)
    ]
    assert lengths == pytest.approx([0, 0.25, 0.5, 0.75, 1, 1])
    etas = [ask(Asam(1.0, warmup(0.0, 1.0, 4)), W, round=t)[0].places[1] - W for t in (0, 4)]
    assert not torch.equal(*etas)


def test_weights_are_distinguished_from_biases_and_norms() -> None:
    assert weights(PLANE).tolist() == [True, True, False]
    shapes = ((2, 2), (2,))
    named = Layout(("conv.weight", "norm.bias"), shapes, (), ())
    assert weights(named).tolist() == [True] * 4 + [False] * 2
    unnamed = Layout(("kernel", "offset"), shapes, (), ())
    assert weights(unnamed).tolist() == [True] * 4 + [False] * 2


def test_settings() -> None:
    assert Sam().oracle_calls == Asam().oracle_calls == 2
    for wrong in (
        lambda: Sam(-0.1),
        lambda: Asam(rho=-1),
        lambda: Asam(eta=-1),
        lambda: Asam(variant="layer"),
    ):
        with pytest.raises(SettingError):
            wrong()
    with pytest.raises(SettingError):
        Sam(math.inf)


@given(vectors, st.floats(0.01, 2))
def test_layerwise_sam_climbs_rho_in_every_tensor(w: Tensor, rho: float) -> None:
    asked, u = ask(LayerwiseSam(rho), w)  # type: ignore[arg-type]
    g, eps = quadratic(w), asked.places[1] - w
    for place in (slice(0, 2), slice(2, 3)):
        step = rho * g[place] / (g[place].norm() + TINY)
        torch.testing.assert_close(eps[place], step, rtol=0, atol=rounding(w, step))
    assert torch.equal(u, quadratic(asked.places[1]))
    assert LayerwiseSam(rho).oracle_calls == 2


def test_last_sam_climbs_along_the_gradient_of_the_step_before() -> None:
    piece = LastSam(0.5)
    v = visiting(piece, W)
    asked = Asked(quadratic)
    first, second = piece.gradient(v, asked, W), piece.gradient(v, asked, W - 1)
    assert torch.equal(asked.places[0], W)
    torch.testing.assert_close(asked.places[1], W - 1 + 0.5 * first / first.norm())
    assert torch.equal(second, quadratic(asked.places[1]))
    assert torch.equal(v.state["g"], second)
    later = visiting(piece, W, state=v.state)
    piece.gradient(later, asked, W)
    torch.testing.assert_close(asked.places[2], W + 0.5 * second / second.norm())
    assert len(asked.places) == 3


@pytest.mark.parametrize("kind", [LayerwiseSam, LastSam])
def test_radii_have_a_range(kind: type[LayerwiseSam] | type[LastSam]) -> None:
    with pytest.raises(SettingError, match="rho must be a number"):
        kind(-0.1)
