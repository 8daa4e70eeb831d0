"""Eigenvalues by Lanczos and by power iteration, of matrices and of networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedflat.errors import RunError, SettingError
from fedflat.flatness import spectrum
from fedflat.flatness.hessian import Hessian
from fedflat.flatness.spectrum import eigenvalues, power_iteration, ratio, steps_of
from flatness.networks import SYMMETRIC, dense, network, toy


def symmetric(values: Tensor, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(
        torch.randn(len(values), len(values), dtype=torch.float64, generator=rng)
    )[0]
    return basis @ torch.diag(values.double()) @ basis.T


def test_the_three_by_three() -> None:
    pairs = eigenvalues(SYMMETRIC, 3)
    assert pairs.values.tolist() == pytest.approx([4.64766356, 2.47709983, -5.12476339], abs=1e-8)
    assert pairs.negative == 1
    assert eigenvalues(SYMMETRIC, 1, which="LM").values.tolist() == pytest.approx(
        [-5.12476339], abs=1e-8
    )
    assert eigenvalues(SYMMETRIC, 2, which="LM").values.tolist() == pytest.approx(
        [4.64766356, -5.12476339], abs=1e-8
    )


def test_power_iteration_finds_the_largest_in_magnitude_first() -> None:
    first = power_iteration(SYMMETRIC, 1, iterations=2000, tol=0)
    assert first.values.tolist() == pytest.approx([-5.12476339], abs=1e-8)
    assert first.negative == 1
    pairs = power_iteration(SYMMETRIC, 3, iterations=2000, tol=0)
    assert pairs.values.tolist() == pytest.approx([4.64766356, 2.47709983, -5.12476339], abs=1e-7)


def test_power_iteration_stops_as_the_papers_do() -> None:
    """At most 20 iterations, or a change below 1e-4; each product counted."""

    class Counted:
        def __init__(self, matrix: Tensor) -> None:
            self.matrix, self.products = matrix, 0
            self.shape, self.dtype, self.device = matrix.shape, matrix.dtype, matrix.device

        def __matmul__(self, v: Tensor) -> Tensor:
            self.products += 1
            return self.matrix @ v

    slow, fast = (
        Counted(symmetric(torch.linspace(-1, 1, 30))),
        Counted(symmetric(torch.tensor([100.0, 1, 1, 1]))),
    )
    power_iteration(slow, 2)
    assert slow.products == 40
    assert power_iteration(fast, 1).values[0] == pytest.approx(100, rel=1e-6)
    assert fast.products < 6


def test_power_iteration_by_hand() -> None:
    """The definition in numpy, from the same starts."""
    H = symmetric(torch.tensor([7.0, 5, 4, 3, -2, 1, 0.5, 0.1]))
    A, found = H.numpy(), []
    for i in range(3):
        v = spectrum._gaussian(H, 0, i).numpy()
        for _, other in found:
            v = v - other * (other @ v)
        v, value = v / np.linalg.norm(v), 0.0
        for _ in range(20):
            product = A @ v - sum(lam * u * (u @ v) for lam, u in found)
            before, value = value, v @ product
            v = product / np.linalg.norm(product)
            if before and abs(value - before) <= 1e-4 * abs(before):
                break
        found.append((value, v))
    expected = sorted((value for value, _ in found), reverse=True)
    assert power_iteration(H, 3).values.tolist() == pytest.approx(expected, rel=1e-7)


@settings(max_examples=25)
@given(
    values=st.lists(st.floats(-10, 10, allow_subnormal=False), min_size=2, max_size=20),
    k=st.integers(1, 2),
    which=st.sampled_from(["LA", "LM"]),
)
def test_small_matrices(values: list[float], k: int, which: str) -> None:
    exact = torch.tensor(values, dtype=torch.float64)
    found = eigenvalues(symmetric(exact), k, which=which).values
    key = exact if which == "LA" else exact.abs()
    chosen = exact[key.topk(k).indices]
    if which == "LM":  # equal magnitudes of either sign may change places
        torch.testing.assert_close(
            found.abs().sort().values, chosen.abs().sort().values, rtol=0, atol=1e-9
        )
    else:
        torch.testing.assert_close(found, chosen.sort(descending=True).values, rtol=0, atol=1e-9)


@pytest.mark.parametrize("which", ["LA", "LM"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lanczos_on_a_larger_matrix(which: str, dtype: torch.dtype) -> None:
    exact = torch.cat([torch.tensor([50.0, 20, 10, 8, 5, -30]), torch.linspace(-1, 1, 194)])
    pairs = eigenvalues(symmetric(exact).to(dtype), 5, which=which)
    expected = [50.0, 20, 10, 8, 5] if which == "LA" else [50.0, 20, 10, 8, -30]
    assert pairs.values.tolist() == pytest.approx(expected, rel=1e-5)
    assert (pairs.residuals <= 2e-3 * pairs.values.abs()).all()
    gram = pairs.vectors.T @ pairs.vectors
    torch.testing.assert_close(gram, torch.eye(5, dtype=dtype), rtol=0, atol=1e-4)


def test_the_same_seed_gives_the_same_bits() -> None:
    H = symmetric(torch.randn(60, generator=torch.Generator().manual_seed(1)))
    assert torch.equal(eigenvalues(H, 3).vectors, eigenvalues(H, 3).vectors)


@pytest.mark.parametrize("kind", ["group norm", "lstm"])
def test_networks(kind: str) -> None:
    learner, model, data = network(kind)
    exact = torch.linalg.eigvalsh(dense(kind)).flip(0)
    hessian = Hessian(learner, model, data, batch_size=8)
    assert len(exact) > steps_of(5)
    found = eigenvalues(hessian, 5, tol=1e-8)
    torch.testing.assert_close(found.values, exact[:5], rtol=1e-6, atol=1e-8)
    assert ratio(found.values) == pytest.approx(float(exact[0] / exact[4]), rel=1e-5)
    name, block = next(iter(hessian.layers().items()))
    part = dense(kind)[: block.shape[0], : block.shape[0]]
    assert name
    torch.testing.assert_close(
        eigenvalues(block, 1).values[0], torch.linalg.eigvalsh(part)[-1], rtol=1e-6, atol=1e-8
    )


def test_the_toy_problem() -> None:
    assert eigenvalues(Hessian(*toy()), 2).values.tolist() == pytest.approx([2.5, 1.5], abs=1e-12)


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        SettingError, match="k must be a whole number of at least 1 and at most 3, found 4"
    ):
        eigenvalues(SYMMETRIC, 4)
    with pytest.raises(SettingError, match="'LA' or 'LM', found 'SA'"):
        eigenvalues(SYMMETRIC, 1, which="SA")
    with pytest.raises(SettingError, match="needs five eigenvalues, found 2"):
        ratio(torch.ones(2))
    monkeypatch.setattr(spectrum, "RESTARTS", 1)
    with pytest.raises(RunError, match="of 5 eigenvalues to a tolerance of 1e-12 in 1 restarts"):
        eigenvalues(symmetric(torch.linspace(0, 1, 300)), 5, tol=1e-12)


@pytest.mark.parametrize("dim", [20, 100])
def test_a_matrix_of_zeros_and_one_that_is_none(dim: int) -> None:
    """Written out, and by Lanczos, which cannot begin with a product of zero."""
    zero = eigenvalues(torch.zeros(dim, dim), 3)
    assert zero.values.tolist() == zero.residuals.tolist() == [0.0, 0.0, 0.0]
    torch.testing.assert_close(zero.vectors.T @ zero.vectors, torch.eye(3))
    broken = torch.eye(dim)
    broken[3, 3] = torch.nan
    assert torch.isnan(eigenvalues(broken, 3).values).all()


def test_a_matrix_of_rank_one() -> None:
    v = torch.linspace(-1, 1, 100, dtype=torch.float64)
    found = eigenvalues(torch.outer(v, v), 5).values
    assert found.tolist() == pytest.approx([float(v @ v), 0, 0, 0, 0], abs=1e-9)
