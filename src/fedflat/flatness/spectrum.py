"""Largest eigenvalues: by Lanczos, which is accurate, and by power iteration, as papers do it.

Everything here takes any symmetric `Operator`: a `Hessian` or a matrix.

Power iteration starts from a normalised Gaussian vector, makes at most 20 iterations, and stops
when the Rayleigh quotient changes by less than 1e-4 of itself. The next pair is that of ``H - sum
lambda_i v_i v_i^T``, from a new start orthogonal to the vectors before it. It finds the eigenvalues
that are largest in magnitude, so there may be negative ones among them. After 20 iterations the
third digit is often not reliable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor

from fedflat.core.flat import TINY, unit
from fedflat.core.seeds import torch_generator
from fedflat.errors import RunError, SettingError, choice, number
from fedflat.flatness.density import thick_restart
from fedflat.flatness.hessian import Operator

RESTARTS = 20
BASIS = 2**30
"""Bytes for the basis of Lanczos, unless the smallest basis needs more."""


@dataclass(frozen=True)
class Pairs:
    """Eigenvalues in descending order, eigenvectors in columns, and ``||H v - lambda v||``."""

    values: Tensor
    vectors: Tensor
    residuals: Tensor

    @property
    def negative(self) -> int:
        """Number of negative eigenvalues."""
        return int((self.values < 0).sum())


def steps_of(k: int) -> int:
    """Return the number of Lanczos steps before the first restart, without a limit of memory."""
    return max(2 * k + 10, 40)


def basis_of(op: Operator, k: int, memory: int = BASIS) -> int:
    """Return the size of the basis that fits into `memory` bytes.

    It is from ``2 k + 2`` to ``steps_of(k)``.
    """
    fit = memory // (op.shape[0] * op.dtype.itemsize) - 1
    return min(steps_of(k), max(2 * k + 2, fit))


def eigenvalues(
    op: Operator,
    k: int = 5,
    *,
    which: str = "LA",
    tol: float = 1e-3,
    seed: int = 0,
    memory: int = BASIS,
) -> Pairs:
    """Return the `k` largest eigenvalues of `op` by Lanczos, with eigenvectors and residuals.

    which
        "LA" for the largest ones, "LM" for the largest in magnitude.
    tol
        A pair has converged when its residual is `tol` times its value. The error of the value is
        then about the square of that.
    memory
        Bytes for the basis. It has at least ``2 k + 2`` vectors.

    A matrix with no more rows than Lanczos would make steps is solved densely. If a product is not
    finite, all values are NaN.

    >>> eigenvalues(torch.diag(torch.tensor([3.0, 1.0, -4.0])), 2).values.tolist()
    [3.0, 1.0]
    """
    dim = op.shape[0]
    number("eigenvalues", "k", k, low=1, high=dim, whole=True)
    number("eigenvalues", "tol", tol, low=0)
    number("eigenvalues", "memory", memory, low=0, whole=True)
    choice("eigenvalues", "which", which, ["LA", "LM"])
    if dim <= steps_of(k):
        values, vectors = _dense(op, k, which)
    else:
        values, vectors = _lanczos(op, k, which, basis_of(op, k, memory), tol, seed)
    return Pairs(values, vectors, _residuals(op, values, vectors))


def _dense(op: Operator, k: int, which: str) -> tuple[Tensor, Tensor]:
    whole = op @ torch.eye(op.shape[0], dtype=op.dtype, device=op.device)
    if not torch.isfinite(whole).all():
        return torch.full((k,), torch.nan, dtype=op.dtype, device=op.device), whole[:, :k]
    values, vectors = torch.linalg.eigh((whole + whole.T) / 2)
    chosen = (values if which == "LA" else values.abs()).topk(k).indices
    chosen = chosen[values[chosen].argsort(descending=True)]
    return values[chosen], vectors[:, chosen]


def _lanczos(
    op: Operator, k: int, which: str, size: int, tol: float, seed: int
) -> tuple[Tensor, Tensor]:
    restarts = RESTARTS * -(-(steps_of(k) - k) // (size - k))
    ritz = thick_restart(
        op, k, _starts(op, seed), size=size, restarts=restarts, tol=tol, magnitude=which == "LM"
    )
    if ritz.converged < k and not ritz.values.isnan().any():
        more = "" if size == steps_of(k) else " Allow more memory for a larger basis."
        raise RunError(
            f"Lanczos found {ritz.converged} of {k} eigenvalues to a tolerance of {tol:g} in "
            f"{restarts} restarts with a basis of {size} vectors. Use fewer eigenvalues, a larger "
            f"tolerance or float64.{more}"
        )
    if which == "LM":
        order = ritz.values.argsort(descending=True)
        return ritz.values[order], ritz.vectors[order].T
    return ritz.values, ritz.vectors.T


def _starts(op: Operator, seed: int) -> Iterator[Tensor]:
    """Iterate over random unit vectors. All but the first are for restarts of Lanczos."""
    yield _gaussian(op, seed)
    for i in count():
        yield _gaussian(op, seed, i)


def _residuals(op: Operator, values: Tensor, vectors: Tensor) -> Tensor:
    """Return the residuals. A block of products would take as much memory as the basis."""
    norms = [
        torch.linalg.vector_norm(op @ v - value * v)
        for value, v in zip(values, vectors.T, strict=True)
    ]
    return torch.stack(norms)


def power_iteration(
    op: Operator, k: int = 5, *, iterations: int = 20, tol: float = 1e-4, seed: int = 0
) -> Pairs:
    """Return the `k` eigenvalues largest in magnitude by power iteration with deflation.

    They are in descending order of value. `iterations` is the largest number of steps per pair. A
    pair has converged when its value changes by less than `tol` times itself.
    """
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
            previous, value = value, v @ product
            residuals[i] = torch.linalg.vector_norm(product - value * v)
            v = unit(product)
            if (value - previous).abs() <= tol * previous.abs() + TINY:
                break
        values[i], vectors[:, i] = value, v
    order = values.argsort(descending=True)
    return Pairs(values[order], vectors[:, order], residuals[order])


def ratio(values: Tensor) -> float:
    """Return ``lambda_1 / lambda_5``: how far the largest eigenvalue is above the bulk.

    >>> ratio(torch.tensor([10.0, 8.0, 6.0, 5.0, 4.0]))
    2.5
    """
    if len(values) < 5:
        raise SettingError(
            f"lambda_1/lambda_5 needs five eigenvalues, found {len(values)}. Use k=5 or more."
        )
    return float(values[0] / values[4])


def _gaussian(op: Operator, seed: int, *path: int) -> Tensor:
    rng = torch_generator(seed, "eigenvectors", *path)
    return unit(torch.randn(op.shape[0], dtype=torch.float64, generator=rng)).to(
        dtype=op.dtype, device=op.device
    )
