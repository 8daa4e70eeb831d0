"""Thick-restart Lanczos: the same eigenvalues with bases of any size, and products one at a
time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from fedflat.flatness.density import Ritz, thick_restart
from fedflat.flatness.spectrum import basis_of, eigenvalues, steps_of

SPECTRUM = torch.cat([torch.tensor([50.0, 20, 10, 8, 5, -30]), torch.linspace(-1, 1, 294)]).double()


class Counted:
    """A diagonal matrix that notes the shapes of what it is multiplied with."""

    def __init__(self, diagonal: Tensor) -> None:
        self.diagonal, self.seen = diagonal, []
        self.shape, self.dtype, self.device = (len(diagonal),) * 2, diagonal.dtype, diagonal.device

    def __matmul__(self, v: Tensor) -> Tensor:
        self.seen.append(tuple(v.shape))
        return self.diagonal * v


def starts(dim: int, dtype: torch.dtype = torch.float64) -> Iterator[Tensor]:
    rng = torch.Generator().manual_seed(0)
    while True:
        v = torch.randn(dim, dtype=torch.float64, generator=rng)
        yield (v / v.norm()).to(dtype)


def found(op: Counted, k: int, size: int, *, magnitude: bool = False) -> Ritz:
    return thick_restart(
        op,
        k,
        starts(len(op.diagonal), op.dtype),
        size=size,
        restarts=200,
        tol=1e-6,
        magnitude=magnitude,
    )


@pytest.mark.parametrize("size", [7, 12, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_small_bases_find_the_same(size: int, dtype: torch.dtype) -> None:
    op = Counted(SPECTRUM.to(dtype))
    largest = found(op, 5, size)
    assert largest.converged == 5
    assert largest.values.tolist() == pytest.approx([50, 20, 10, 8, 5], rel=1e-5)
    torch.testing.assert_close(
        largest.vectors @ largest.vectors.T, torch.eye(5, dtype=dtype), rtol=0, atol=1e-5
    )
    assert set(op.seen) == {(300,)}
    by_size = found(op, 5, size, magnitude=True)
    assert by_size.values.tolist() == pytest.approx([50, -30, 20, 10, 8], rel=1e-5)


def test_an_invariant_subspace_is_left() -> None:
    """From the first unit vector alone only one eigenvalue is seen."""
    op = Counted(SPECTRUM)

    def from_the_first() -> Iterator[Tensor]:
        yield torch.eye(300, dtype=torch.float64)[3].clone()
        yield from starts(300)

    pairs = thick_restart(op, 2, from_the_first(), size=20, restarts=50, tol=1e-8)
    assert pairs.values.tolist() == pytest.approx([50, 20], rel=1e-8)


def test_products_that_are_not_finite_have_no_eigenvalues() -> None:
    broken = SPECTRUM.clone()
    broken[7] = torch.inf
    assert found(Counted(broken), 2, 20).values.isnan().all()


def test_the_basis_is_as_large_as_memory_allows() -> None:
    op = Counted(torch.zeros(10**6))
    assert basis_of(op, 5) == steps_of(5) == 40
    assert basis_of(op, 5, memory=4 * 31 * 10**6) == 30
    assert basis_of(op, 5, memory=0) == 12


def test_a_small_basis_costs_no_accuracy() -> None:
    op = Counted(SPECTRUM)
    whole, small = eigenvalues(op, 5), eigenvalues(op, 5, memory=0)
    assert set(op.seen) == {(300,)}
    torch.testing.assert_close(small.values, whole.values, rtol=1e-5, atol=0)
    assert (small.residuals <= 1e-3 * small.values).all()
