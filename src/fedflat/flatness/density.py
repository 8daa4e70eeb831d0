"""The spectral density: how many eigenvalues there are of each size; and thick-restart Lanczos.

Ghorbani, Krishnan and Xiao, An Investigation into Neural Net Optimization via Hessian Eigenvalue
Density, ICML 2019 (arXiv 1901.10159): stochastic Lanczos quadrature. Lanczos from a random vector
gives nodes and weights with the moments of the spectrum as weighted by that vector. The density is
their mean over vectors, with each node blurred into a Gaussian.

As many vectors as fit into memory advance together, so that each product is one of a block. Lanczos
vectors are not orthogonalised again. This makes copies of nodes, which share the weight of one, but
needs no memory for all vectors.

Thick restarts give a few eigenpairs of a large operator with a basis of bounded size: Wu and Simon,
Thick-Restart Lanczos Method for Large Symmetric Eigenvalue Problems, SIAM Journal on Matrix
Analysis and Applications 22 (2000). The basis grows to ``size`` vectors. If the wanted pairs have
not converged by then, the basis is replaced by the best Ritz vectors and the last residual, and
grows again. In exact arithmetic this is the implicit restart of ARPACK. It takes ``size + 1``
vectors of memory; the basis is never copied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.errors import MOST_AT_ONCE, number
from fedflat.flatness.hessian import Operator
from fedflat.flatness.trace import MEMORY, columns_of, sign_blocks

STEPS = 90
VECTORS_PER_PROBE = 6
"""Vectors of memory per random vector: itself, three Lanczos vectors, and two for products."""


@dataclass(frozen=True)
class Density:
    """The density `y` at the points `x`. It integrates to 1."""

    x: Tensor
    y: Tensor
    width: float
    """Standard deviation of the Gaussians."""


def spectral_density(
    op: Operator,
    probes: int = 10,
    *,
    steps: int = STEPS,
    points: int = 1001,
    blur: float = 1e-2,
    seed: int = 0,
    memory: int = MEMORY,
) -> Density:
    """Return the density of the eigenvalues of `op`.

    probes
        Number of random vectors, 1 or more.
    steps
        Lanczos steps per vector.
    points
        Number of points of the curve.
    blur
        Standard deviation of the Gaussians, as a fraction of the range of the eigenvalues.
    memory
        Limit in bytes for the vectors that are used at once.
    """
    number("density", "probes", probes, low=1, whole=True)
    number("density", "steps", steps, low=1, whole=True)
    number("density", "points", points, low=2, high=MOST_AT_ONCE, whole=True)
    number("density", "blur", blur, low=0, open_low=True)
    blocks = sign_blocks(op, probes, min(probes, columns_of(op, VECTORS_PER_PROBE, memory)), seed)
    quadratures = [quadrature(op, block, steps) for block in blocks]
    nodes, weights = (torch.cat(parts) for parts in zip(*quadratures, strict=True))
    support = nodes[weights > 1e-14]
    low, high = float(support.min()), float(support.max())
    width = blur * ((high - low) or max(abs(high), 1.0))
    x = torch.linspace(low - 6 * width, high + 6 * width, points, dtype=torch.float64)
    y = torch.zeros_like(x)
    for node, weight in zip(nodes.flatten(), weights.flatten() / probes, strict=True):
        y += weight * torch.exp(-0.5 * ((x - node) / width) ** 2) / (width * (2 * torch.pi) ** 0.5)
    return Density(x, y, width)


def quadrature(op: Operator, starts: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Return nodes and weights of the spectrum, one row for each column of `starts`."""
    steps = min(steps, op.shape[0])
    v = starts / torch.linalg.vector_norm(starts, dim=0)
    previous, off = torch.zeros_like(v), torch.zeros_like(v[0])
    diagonal, off_diagonal = [], []
    for _ in range(steps):
        product = (op @ v).sub_(off * previous)
        along = (v * product).sum(dim=0)
        product.sub_(along * v)
        off = torch.linalg.vector_norm(product, dim=0)
        exhausted = off <= torch.finfo(op.dtype).eps * (along.abs() + 1e-30) * op.shape[0] ** 0.5
        off = torch.where(exhausted, 0.0, off)
        previous, v = v, product.div_(torch.where(exhausted, torch.inf, off))
        diagonal.append(along)
        off_diagonal.append(off)
    return _nodes(
        torch.stack(diagonal, dim=1).double().cpu(), torch.stack(off_diagonal, dim=1).double().cpu()
    )


def _nodes(diagonal: Tensor, off_diagonal: Tensor) -> tuple[Tensor, Tensor]:
    matrices = torch.diag_embed(diagonal)
    if diagonal.shape[1] > 1:
        side = off_diagonal[:, :-1]
        matrices = matrices + torch.diag_embed(side, offset=1) + torch.diag_embed(side, offset=-1)
    nodes, vectors = torch.linalg.eigh(matrices)
    return nodes, vectors[:, 0, :] ** 2


CHUNK = 1 << 16
"""Columns of the basis in one partial sum: sums of millions of numbers in float32 lose digits."""


@dataclass(frozen=True)
class Ritz:
    """Approximate eigenpairs, the best first."""

    values: Tensor
    vectors: Tensor
    """One eigenvector per row: the first rows of the basis."""
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
    """Return the `k` largest eigenpairs, or with `magnitude` the largest in magnitude.

    size
        Number of vectors of the basis.
    restarts
        Largest number of restarts.
    tol
        A pair has converged when its residual is at most `tol` times its value.
    starts
        Random unit vectors. The first one starts the basis. Another one is used whenever the basis
        spans an invariant subspace.

    If a product is not finite, all values are NaN.
    """
    dim, eps = op.shape[0], torch.finfo(op.dtype).eps
    basis = torch.empty(size + 1, dim, dtype=op.dtype, device=op.device)
    basis[0] = next(starts)
    matrix = torch.zeros(size, size, dtype=torch.float64)  # the operator in the basis
    retained = 0
    for last in reversed(range(restarts)):
        beta = _extend(op, basis, matrix, retained, starts)
        if not torch.isfinite(matrix).all():
            return Ritz(torch.full((k,), torch.nan, dtype=op.dtype, device=op.device), basis[:k], 0)
        values, rotation = torch.linalg.eigh(matrix)
        order = (values.abs() if magnitude else values).argsort(descending=True)
        values, rotation = values[order], rotation[:, order]
        residuals = (beta * rotation[-1]).abs()
        converged = int((residuals[:k] <= tol * values[:k].abs().clamp(min=eps ** (2 / 3))).sum())
        if converged == k or not last:
            _rotate(basis[:size], rotation[:, :k])
            return Ritz(values[:k].to(basis), basis[:k], converged)
        retained = k + min(converged, (size - k) // 2)
        _rotate(basis[:size], rotation[:, :retained])
        basis[retained] = basis[size]
        matrix.zero_()
        matrix.diagonal()[:retained] = values[:retained]
        matrix[retained, :retained] = matrix[:retained, retained] = beta * rotation[-1, :retained]
    raise AssertionError("at least one restart is needed")


def _extend(
    op: Operator, basis: Tensor, matrix: Tensor, first: int, starts: Iterator[Tensor]
) -> float:
    """Fill the basis from row `first` on. Returns the norm of the last residual."""
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
    """Make `vector` orthogonal to `rows`, in place, by two passes of Gram-Schmidt.

    Returns the coefficients that were removed.
    """
    coefficients = torch.zeros(len(rows), dtype=torch.float64)
    for _ in range(2):
        part = _dots(rows, vector)
        vector.addmv_(rows.T, part.to(vector), alpha=-1)
        coefficients += part
    return coefficients


def _dots(rows: Tensor, vector: Tensor) -> Tensor:
    """Return the dot product of each row with `vector`."""
    total = torch.zeros(len(rows), dtype=torch.float64)
    for columns, part in zip(rows.split(CHUNK, dim=1), vector.split(CHUNK), strict=True):
        total += (columns @ part).double().cpu()
    return total


def _norm(vector: Tensor) -> float:
    return math.sqrt(float(_dots(vector[None], vector)))


def _rotate(basis: Tensor, rotation: Tensor) -> None:
    """Replace the first rows of `basis` by combinations of all rows."""
    combinations = rotation.T.to(basis)
    for part in basis.split(CHUNK, dim=1):
        part[: len(combinations)] = combinations @ part
