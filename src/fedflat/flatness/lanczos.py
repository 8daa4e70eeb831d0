"""Thick-restart Lanczos: a few eigenpairs of a large symmetric operator with a basis of bounded
size.

Wu and Simon, Thick-Restart Lanczos Method for Large Symmetric Eigenvalue Problems, SIAM Journal on
Matrix Analysis and Applications 22 (2000). The basis grows to ``size`` vectors. If the wanted pairs
have not converged by then, the basis is replaced by the best Ritz vectors and the last residual,
and grows again. In exact arithmetic this is the implicit restart of ARPACK. It takes ``size + 1``
vectors of memory; the basis is never copied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.flatness.hessian import Operator

CHUNK = 1 << 16
"""Columns of the basis that are worked on at once: sums of millions of numbers in float32 lose
digits."""


@dataclass(frozen=True)
class Ritz:
    """The approximate eigenpairs, the best first."""

    values: Tensor
    vectors: Tensor
    """In rows: the first rows of the basis."""
    converged: int


def thick_restart(
    op: Operator,
    k: int,
    starts: Iterator[Tensor],
    *,
    size: int,
    restarts: int,
    tol: float,
    magnitude: bool = False,
) -> Ritz:
    """The ``k`` largest eigenvalues, or with ``magnitude`` the largest in magnitude, with a basis
    of ``size`` vectors.

    A pair has converged when its residual is at most ``tol`` of its value. ``starts`` gives random
    unit vectors: the first one begins, and another is taken whenever the basis spans an invariant
    subspace. If a product is not finite, all values are NaN.
    """
    dim, eps = op.shape[0], torch.finfo(op.dtype).eps
    basis = torch.empty(size + 1, dim, dtype=op.dtype, device=op.device)
    basis[0] = next(starts)
    matrix = torch.zeros(size, size, dtype=torch.float64)  # the operator in the basis
    kept = 0
    for last in reversed(range(restarts)):
        beta = _extend(op, basis, matrix, kept, starts)
        if not torch.isfinite(matrix).all():
            return Ritz(torch.full((k,), torch.nan, dtype=op.dtype, device=op.device), basis[:k], 0)
        values, rotation = torch.linalg.eigh(matrix)
        order = (values.abs() if magnitude else values).argsort(descending=True)
        values, rotation = values[order], rotation[:, order]
        residuals = (beta * rotation[-1]).abs()
        done = int((residuals[:k] <= tol * values[:k].abs().clamp(min=eps ** (2 / 3))).sum())
        if done == k or not last:
            _rotate(basis[:size], rotation[:, :k])
            return Ritz(values[:k].to(basis), basis[:k], done)
        kept = k + min(done, (size - k) // 2)
        _rotate(basis[:size], rotation[:, :kept])
        basis[kept] = basis[size]
        matrix.zero_()
        matrix.diagonal()[:kept] = values[:kept]
        matrix[kept, :kept] = matrix[:kept, kept] = beta * rotation[-1, :kept]
    raise AssertionError("at least one restart is needed")


def _extend(
    op: Operator, basis: Tensor, matrix: Tensor, first: int, starts: Iterator[Tensor]
) -> float:
    """Fill the basis from row ``first`` on; give the norm of what the last product adds."""
    beta, size = 0.0, len(matrix)
    for j in range(first, size):
        product = op @ basis[j]
        length = _norm(product)
        matrix[j, j] = _remove(product, basis[: j + 1])[j]
        beta = _norm(product)
        if beta <= torch.finfo(op.dtype).eps * max(length, float(matrix.abs().max())):
            beta, product = 0.0, next(starts)
            _remove(product, basis[: j + 1])
        torch.div(product, beta or _norm(product), out=basis[j + 1])
        if j + 1 < size:
            matrix[j, j + 1] = matrix[j + 1, j] = beta
    return beta


def _remove(vector: Tensor, rows: Tensor) -> Tensor:
    """Make ``vector`` orthogonal to ``rows``, in place, by two passes of Gram-Schmidt; give what
    was along them."""
    along = torch.zeros(len(rows), dtype=torch.float64)
    for _ in range(2):
        part = _dots(rows, vector)
        vector.addmv_(rows.T, part.to(vector), alpha=-1)
        along += part
    return along


def _dots(rows: Tensor, vector: Tensor) -> Tensor:
    """The product of each row with ``vector``."""
    total = torch.zeros(len(rows), dtype=torch.float64)
    for some, part in zip(rows.split(CHUNK, dim=1), vector.split(CHUNK), strict=True):
        total += (some @ part).double().cpu()
    return total


def _norm(vector: Tensor) -> float:
    return math.sqrt(float(_dots(vector[None], vector)))


def _rotate(basis: Tensor, rotation: Tensor) -> None:
    """Replace the first rows of ``basis`` by combinations of all, one for each column of
    ``rotation``."""
    turn = rotation.T.to(basis)
    for part in basis.split(CHUNK, dim=1):
        part[: len(turn)] = turn @ part
