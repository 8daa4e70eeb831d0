"""The trace: exact on the given vectors, right within its standard error on random ones."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedflat.errors import SettingError
from fedflat.flatness.hessian import Hessian
from fedflat.flatness.trace import hutch_plus_plus, hutchinson, quadratic_forms, signs, trace
from flatness.networks import SYMMETRIC, dense, network


def random_matrix(dim: int, seed: int, falloff: float = 0.0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(dim, dim, dtype=torch.float64, generator=rng))[0]
    values = torch.arange(1, dim + 1, dtype=torch.float64) ** -falloff
    return basis @ torch.diag(values) @ basis.T


def test_the_four_vectors() -> None:
    vectors = torch.tensor(
        [[1.0, 1, 1], [1, -1, 1], [1, 1, -1], [1, -1, -1]], dtype=torch.float64
    ).T
    forms = quadratic_forms(SYMMETRIC, vectors)
    assert forms.tolist() == [6, -2, 2, 2]
    assert float(forms.mean()) == 2 == float(SYMMETRIC.trace())


def test_random_signs() -> None:
    drawn = signs(SYMMETRIC, 4000, 0)
    assert set(drawn.flatten().tolist()) == {-1.0, 1.0}
    torch.testing.assert_close(
        drawn @ drawn.T / 4000, torch.eye(3, dtype=torch.float64), rtol=0, atol=0.08
    )


def test_the_standard_error_is_that_of_the_mean() -> None:
    """Var(z^T H z) = 2 (||H||_F^2 - sum of the squared diagonal), here 8."""
    found = hutchinson(SYMMETRIC, 2000)
    assert found.stderr == pytest.approx((8 / 2000) ** 0.5, rel=0.1)
    assert abs(found.mean - 2) < 4 * found.stderr
    assert (found.probes, found.method) == (2000, "hutchinson")


@settings(max_examples=20)
@given(
    dim=st.integers(2, 30),
    seed=st.integers(0, 1000),
    method=st.sampled_from(["hutchinson", "hutch++"]),
)
def test_random_matrices(dim: int, seed: int, method: str) -> None:
    H = random_matrix(dim, seed)
    H = H + torch.diag(torch.linspace(-3, 3, dim, dtype=torch.float64))
    found = trace(H, 200, method=method, seed=seed)
    assert abs(found.mean - float(H.trace())) <= 6 * found.stderr + 1e-9


def test_more_probes_come_closer() -> None:
    H = random_matrix(40, 3, falloff=0.2)
    exact = float(H.trace())
    errors = [
        torch.tensor([hutchinson(H, n, seed=s).mean - exact for s in range(20)])
        .square()
        .mean()
        .sqrt()
        for n in (10, 160)
    ]
    assert 2 < errors[0] / errors[1] < 8  # 4 in the limit


def test_hutch_plus_plus_is_better_if_few_eigenvalues_carry_the_trace() -> None:
    H = random_matrix(100, 4, falloff=2.0)
    exact = float(H.trace())
    plain = sum(abs(hutchinson(H, 30, seed=s).mean - exact) for s in range(10))
    plus = sum(abs(hutch_plus_plus(H, 30, seed=s).mean - exact) for s in range(10))
    assert plus < plain / 5


def test_hutch_plus_plus_is_exact_if_the_subspace_is_the_whole() -> None:
    found = hutch_plus_plus(SYMMETRIC, 9)
    assert found.mean == pytest.approx(2, abs=1e-12)
    assert found.stderr == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("method", ["hutchinson", "hutch++"])
def test_a_network(method: str) -> None:
    learner, model, data = network("group norm")
    found = trace(Hessian(learner, model, data), 60, method=method)
    assert abs(found.mean - float(dense("group norm").trace())) < 4 * found.stderr


def test_refusals() -> None:
    with pytest.raises(SettingError, match="probes must be a whole number of at least 2, found 1"):
        hutchinson(SYMMETRIC, 1)
    with pytest.raises(SettingError, match="Did you mean 'hutch"):
        trace(SYMMETRIC, 10, method="hutch+")
