"""Two other libraries find the same, where they are installed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedflat.flatness.density import quadrature
from fedflat.flatness.hessian import Hessian
from fedflat.flatness.spectrum import eigenvalues, power_iteration
from fedflat.flatness.trace import hutchinson
from flatness.networks import network, plain

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)


@pytest.mark.parametrize("kind", ["mlp", "batch norm"])
def test_curvlinops(kind: str) -> None:
    """Its Hessian goes forward over backward: not for GroupNorm."""
    curvlinops = pytest.importorskip("curvlinops", exc_type=ImportError)
    learner, model, data = network(kind)
    module, x, y = plain(learner, model, data)
    theirs = curvlinops.HessianLinearOperator(
        module, nn.CrossEntropyLoss(), list(module.parameters()), [(x[:6], y[:6]), (x[6:], y[6:])]
    )
    eye = torch.eye(len(model.params), dtype=torch.float64)
    torch.testing.assert_close(
        Hessian(learner, model, data, batch_size=4) @ eye, theirs @ eye, rtol=1e-9, atol=1e-12
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mlp", "group norm", "lstm"])
def test_hessian_eigenthings(kind: str) -> None:
    eigenthings: Any = pytest.importorskip("hessian_eigenthings")
    learner, model, data = network(kind)
    module, x, y = plain(learner, model, data)

    def loss(module: nn.Module, batch: Any) -> torch.Tensor:
        return cross_entropy(module(batch[0]), batch[1])

    theirs = eigenthings.HessianOperator(module, [(x, y)], loss)
    ours = Hessian(learner, model, data, batch_size=4)
    v = torch.randn(
        len(model.params), dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    torch.testing.assert_close(ours @ v, theirs.matvec(v), rtol=1e-9, atol=1e-12)

    top = eigenthings.lanczos(
        theirs, k=3, max_iter=len(v), which="LA", tol=1e-10, reorthogonalize=True, seed=0
    )
    torch.testing.assert_close(
        eigenvalues(ours, 3, tol=1e-10).values,
        top.eigenvalues.sort(descending=True).values,
        rtol=1e-8,
        atol=1e-10,
    )
    converged = eigenthings.deflated_power_iteration(theirs, k=1, max_iter=3000, tol=1e-14, seed=0)
    ours_converged = power_iteration(ours, 1, iterations=3000, tol=1e-14)
    torch.testing.assert_close(ours_converged.values, converged.eigenvalues, rtol=1e-5, atol=1e-8)

    theirs_trace, ours_trace = (
        eigenthings.hutchinson(theirs, num_samples=60, seed=0),
        hutchinson(ours, 60),
    )
    assert (
        abs(theirs_trace.estimate - ours_trace.mean)
        < 5 * (theirs_trace.stderr**2 + ours_trace.stderr**2) ** 0.5
    )

    rows = eigenthings.lanczos_tridiagonal(theirs, v0=v, max_iter=6)
    nodes, weights = quadrature(ours, v.unsqueeze(1), 6)
    matrix = (
        torch.diag(rows.alphas) + torch.diag(rows.betas[:5], 1) + torch.diag(rows.betas[:5], -1)
    )
    values, vectors = torch.linalg.eigh(matrix.double())
    torch.testing.assert_close(nodes[0], values, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(weights[0], vectors[0] ** 2, rtol=1e-4, atol=1e-8)
