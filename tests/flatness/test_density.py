"""The spectral density has the moments and the shape of the spectrum."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedflat.flatness.density import Density, quadrature, spectral_density
from fedflat.flatness.hessian import Hessian
from fedflat.flatness.trace import quadratic_forms, signs
from flatness.networks import SYMMETRIC, dense, network


def moment(found: Density, power: int) -> float:
    return float(torch.trapezoid(found.y * found.x**power, found.x))


def rotated(values: Tensor) -> Tensor:
    rng = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(
        torch.randn(len(values), len(values), dtype=torch.float64, generator=rng)
    )[0]
    return basis @ torch.diag(values.double()) @ basis.T


def test_moments_converge_to_those_of_the_spectrum() -> None:
    exact = dense("group norm")
    found = spectral_density(exact, 500, steps=15)
    dim, width = len(exact), found.width
    assert moment(found, 0) == pytest.approx(1, abs=1e-6)
    assert moment(found, 1) == pytest.approx(float(exact.trace()) / dim, rel=0.1)
    assert moment(found, 2) == pytest.approx(float(exact.square().sum()) / dim + width**2, rel=0.1)


def test_a_network_has_the_density_of_its_matrix() -> None:
    exact = dense("group norm")
    ours, theirs = (
        spectral_density(Hessian(*network("group norm")), 3, steps=8),
        spectral_density(exact, 3, steps=8),
    )
    torch.testing.assert_close(ours.x, theirs.x, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(ours.y, theirs.y, rtol=1e-3, atol=1e-4 * float(theirs.y.max()))


def test_for_one_vector_the_first_moments_are_exact() -> None:
    starts = signs(SYMMETRIC, 4, 0)
    nodes, weights = quadrature(SYMMETRIC, starts, 2)
    torch.testing.assert_close((weights * nodes).sum(1), quadratic_forms(SYMMETRIC, starts) / 3)
    squares = (SYMMETRIC @ starts).square().sum(0) / 3
    torch.testing.assert_close((weights * nodes**2).sum(1), squares)


def test_all_steps_give_the_eigenvalues() -> None:
    nodes, weights = quadrature(SYMMETRIC, signs(SYMMETRIC, 1, 0), 90)
    assert nodes[0].tolist() == pytest.approx([-5.12476339, 2.47709983, 4.64766356], abs=1e-8)
    assert float(weights.sum()) == pytest.approx(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_steps_do_not_spoil_it(dtype: torch.dtype) -> None:
    """Lanczos without orthogonalisation copies nodes; the share of each cluster stays right."""
    values = torch.cat(
        [torch.full((150,), 0.0), torch.linspace(0.9, 1.1, 40), torch.full((10,), 10.0)]
    )
    found = spectral_density(rotated(values).to(dtype), 20, steps=90)
    for low, high, share in ((-0.5, 0.5, 0.75), (0.5, 2, 0.2), (9, 11, 0.05)):
        inside = (found.x > low) & (found.x < high)
        assert float(torch.trapezoid(found.y[inside], found.x[inside])) == pytest.approx(
            share, abs=0.03
        )
    assert found.width == pytest.approx(0.1, rel=0.02)


def test_a_multiple_of_the_identity() -> None:
    found = spectral_density(3 * torch.eye(5, dtype=torch.float64), 2)
    assert moment(found, 0) == pytest.approx(1, abs=1e-6)
    assert moment(found, 1) == pytest.approx(3, abs=1e-6)
