"""The ends of a spectrum: Lanczos for numbers to rely on, power iteration with deflation as the papers do it.

Everything here takes any symmetric `Operator`, be it a `Hessian` or a plain matrix.

Power iteration starts from a normalised Gaussian vector, makes at most 20 iterations, and stops when the
Rayleigh quotient changes by less than 1e-4 of itself; the next pair is that of ``H - sum lambda_i v_i v_i^T``,
from a fresh start orthogonal to what was found. It finds what is largest in magnitude, so that negative
eigenvalues may be among the values, and 20 iterations often leave the third digit open.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh  # type: ignore[import-untyped]
from torch import Tensor

from fedflat.engine.flat import TINY, unit
from fedflat.engine.seeds import torch_generator
from fedflat.errors import RunError, SettingError, choice, number
from fedflat.flatness.hessian import Operator

RESTARTS = 20


@dataclass(frozen=True)
class Pairs:
    """Eigenvalues in descending order, their vectors in columns, and how far each is off: ``||H v - lambda v||``."""

    values: Tensor
    vectors: Tensor
    residuals: Tensor

    @property
    def negative(self) -> int:
        """How many of the values are below zero."""
        return int((self.values < 0).sum())


def steps_of(k: int) -> int:
    """Lanczos steps before the first restart."""
    return max(2 * k + 10, 40)


def eigenvalues(op: Operator, k: int = 5, *, which: str = "LA", tol: float = 1e-3, seed: int = 0) -> Pairs:
    """The ``k`` largest eigenvalues of ``op`` by Lanczos; with ``which="LM"`` the largest in magnitude.

    A pair is done when its residual is ``tol`` of its value; the value itself is then good to about the square.
    A matrix with no more rows than Lanczos would make steps is written out and solved whole. One that is zero has
    eigenvalues of zero, and one that is not finite has none: they are NaN.

    >>> eigenvalues(torch.diag(torch.tensor([3.0, 1.0, -4.0])), 2).values.tolist()
    [3.0, 1.0]
    """
    dim = op.shape[0]
    number("eigenvalues", "k", k, low=1, high=dim, whole=True)
    number("eigenvalues", "tol", tol, low=0)
    choice("eigenvalues", "which", which, ["LA", "LM"])
    steps = steps_of(k)
    if dim <= steps:
        values, vectors = _dense(op, k, which)
    else:
        values, vectors = _lanczos(op, k, which, steps, tol, seed)
    order = values.argsort(descending=True)
    values, vectors = values[order], vectors[:, order]
    return Pairs(values, vectors, _residuals(op, values, vectors))


def _dense(op: Operator, k: int, which: str) -> tuple[Tensor, Tensor]:
    whole = op @ torch.eye(op.shape[0], dtype=op.dtype, device=op.device)
    if not torch.isfinite(whole).all():
        return _same(op, k, torch.nan)
    values, vectors = torch.linalg.eigh((whole + whole.T) / 2)
    kept = (values if which == "LA" else values.abs()).topk(k).indices
    return values[kept], vectors[:, kept]


def _lanczos(op: Operator, k: int, which: str, steps: int, tol: float, seed: int) -> tuple[Tensor, Tensor]:
    def product(v: np.ndarray) -> np.ndarray:
        return (op @ torch.from_numpy(v.reshape(-1)).to(op.device)).cpu().numpy()

    random = _gaussian(op, seed)
    moved = op @ random
    if not torch.isfinite(moved).all():
        return _same(op, k, torch.nan)
    if not moved.any():  # a random vector is in the kernel of zero only, which Lanczos cannot take
        return _same(op, k, 0.0)
    start = random.cpu().numpy()
    linear = LinearOperator(tuple(op.shape), matvec=product, dtype=start.dtype)
    try:
        values, vectors = eigsh(linear, k, which=which, v0=start, ncv=steps, tol=tol, maxiter=RESTARTS)
    except ArpackNoConvergence as error:
        raise RunError(
            f"Lanczos found {len(error.eigenvalues)} of {k} eigenvalues to a tolerance of {tol:g} in {RESTARTS} "
            "restarts. Ask for fewer, for a larger tolerance, or compute in float64."
        ) from error
    except ArpackError as error:
        raise RunError(f"Lanczos failed ({error}). Ask for fewer eigenvalues, or compute in float64.") from error
    return torch.from_numpy(values).to(op.device), torch.from_numpy(vectors).to(op.device)


def _same(op: Operator, k: int, value: float) -> tuple[Tensor, Tensor]:
    """So many eigenvalues that are all the same, with the first unit vectors."""
    return torch.full((k,), value, dtype=op.dtype, device=op.device), torch.eye(
        op.shape[0], k, dtype=op.dtype, device=op.device
    )


def _residuals(op: Operator, values: Tensor, vectors: Tensor) -> Tensor:
    residuals: Tensor = torch.linalg.vector_norm((op @ vectors) - vectors * values, dim=0)
    return residuals


def power_iteration(op: Operator, k: int = 5, *, iterations: int = 20, tol: float = 1e-4, seed: int = 0) -> Pairs:
    """The ``k`` eigenvalues largest in magnitude, one after the other, in descending order of value."""
    number("power_iteration", "k", k, low=1, high=op.shape[0], whole=True)
    number("power_iteration", "iterations", iterations, low=1, whole=True)
    values = torch.zeros(k, dtype=op.dtype, device=op.device)
    vectors = torch.zeros(op.shape[0], k, dtype=op.dtype, device=op.device)
    residuals = torch.zeros_like(values)
    for i in range(k):
        v = _gaussian(op, seed, i)
        v = unit(v - vectors @ (vectors.T @ v))
        value = torch.zeros((), dtype=op.dtype, device=op.device)
        for _ in range(iterations):
            product = op @ v
            product = product - vectors @ (values * (vectors.T @ v))
            before, value = value, v @ product
            residuals[i] = torch.linalg.vector_norm(product - value * v)
            v = unit(product)
            if (value - before).abs() <= tol * before.abs() + TINY:
                break
        values[i], vectors[:, i] = value, v
    order = values.argsort(descending=True)
    return Pairs(values[order], vectors[:, order], residuals[order])


def ratio(values: Tensor) -> float:
    """``lambda_1 / lambda_5``: how far the first stands out of the bulk.

    >>> ratio(torch.tensor([10.0, 8.0, 6.0, 5.0, 4.0]))
    2.5
    """
    if len(values) < 5:
        raise SettingError(f"lambda_1/lambda_5 needs five eigenvalues, found {len(values)}. Ask for k=5 or more.")
    return float(values[0] / values[4])


def _gaussian(op: Operator, seed: int, *path: int) -> Tensor:
    rng = torch_generator(seed, "eigenvectors", *path)
    return unit(torch.randn(op.shape[0], dtype=torch.float64, generator=rng)).to(dtype=op.dtype, device=op.device)
