"""The trace of a symmetric operator from its products with random vectors.

Hutchinson, A Stochastic Estimator of the Trace of the Influence Matrix, 1990: the mean of ``z^T H
z`` over vectors z of random signs. Meyer, Musco, Musco and Woodruff, Hutch++: Optimal Stochastic
Trace Estimation, SOSA 2021 (arXiv 2010.09649): a third of the products find a subspace Q that
contains most of H, a third give the exact trace there, and Hutchinson estimates the rest with the
last third. This is better if a few eigenvalues dominate the trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.core.seeds import torch_generator
from fedflat.errors import choice, number
from fedflat.flatness.hessian import Operator

BLOCK = 10
MEMORY = 2**30
"""Bytes for the vectors of one block, unless one vector needs more."""
VECTORS_PER_SIGN = 2
"""Vectors of memory per random vector: itself and its product."""
METHODS = ("hutchinson", "hutch++")


@dataclass(frozen=True)
class Estimate:
    """A mean and its standard error over the random vectors."""

    mean: float
    stderr: float
    probes: int
    """Number of products."""
    method: str


def trace(
    op: Operator,
    probes: int = 100,
    *,
    method: str = "hutchinson",
    seed: int = 0,
    memory: int = MEMORY,
) -> Estimate:
    """Return the trace by "hutchinson" or "hutch++", with `probes` products."""
    choice("trace", "method", method, METHODS)
    estimator = hutchinson if method == "hutchinson" else hutch_plus_plus
    return estimator(op, probes, seed=seed, memory=memory)


def columns_of(op: Operator, each: int, memory: int) -> int:
    """Return how many columns fit into `memory` bytes if each needs `each` vectors.

    >>> columns_of(torch.eye(100), 5, memory=10_000), columns_of(torch.eye(100), 5, memory=0)
    (5, 1)
    """
    return max(1, memory // (each * op.shape[0] * op.dtype.itemsize))


def quadratic_forms(op: Operator, vectors: Tensor, columns: int = BLOCK) -> Tensor:
    """Return ``z^T H z`` in float64 for each column z, with `columns` products at a time.

    >>> H = torch.tensor([[4.0, 1, 0], [1, 3, 1], [0, 1, -5]])
    >>> quadratic_forms(H, torch.tensor([[1.0, 1], [1, -1], [1, 1]])).tolist()
    [6.0, -2.0]
    """
    forms = [
        torch.dot(z.double(), product.double())
        for block in vectors.split(columns, dim=1)
        for z, product in zip(block.T, (op @ block).T, strict=True)
    ]
    return torch.stack(forms)


def hutchinson(op: Operator, probes: int = 100, *, seed: int = 0, memory: int = MEMORY) -> Estimate:
    """Estimate the trace by the mean of ``z^T H z`` over `probes` vectors of random signs."""
    number("hutchinson", "probes", probes, low=2, whole=True)
    counts = [min(BLOCK, probes - first) for first in range(0, probes, BLOCK)]
    columns = min(BLOCK, columns_of(op, VECTORS_PER_SIGN, memory))
    forms = [
        quadratic_forms(op, block)
        for i, count in enumerate(counts)
        for block in sign_blocks(op, count, columns, seed, i)
    ]
    return _estimate(torch.cat(forms), 0.0, probes, "hutchinson")


def hutch_plus_plus(
    op: Operator, probes: int = 99, *, seed: int = 0, memory: int = MEMORY
) -> Estimate:
    """Return the exact trace in a subspace plus an estimate of the rest.

    A third of the products find the subspace. The basis of the subspace, a third of `probes`
    vectors, is stored whatever `memory` is.
    """
    number("hutch++", "probes", probes, low=6, whole=True)
    third = min(probes // 3, op.shape[0])
    columns = min(BLOCK, columns_of(op, VECTORS_PER_SIGN, memory))
    basis: Tensor = torch.linalg.qr(op @ signs(op, third, seed, 0))[0]
    inside = float(quadratic_forms(op, basis, columns).sum())
    rest = signs(op, third, seed, 1)
    rest = rest - basis @ (basis.T @ rest)
    return _estimate(quadratic_forms(op, rest, columns), inside, 3 * third, "hutch++")


def signs(op: Operator, count: int, seed: int, *path: int) -> Tensor:
    """Return `count` columns of random signs."""
    return next(sign_blocks(op, count, count, seed, *path))


def sign_blocks(op: Operator, count: int, columns: int, seed: int, *path: int) -> Iterator[Tensor]:
    """Iterate over blocks of at most `columns` columns of random signs."""
    rng = torch_generator(seed, "signs", *path)
    for first in range(0, count, columns):
        some = min(columns, count - first)
        block = torch.randint(0, 2, (some, op.shape[0]), dtype=torch.int8, generator=rng)
        yield block.mul_(2).sub_(1).T.to(dtype=op.dtype, device=op.device)


def _estimate(forms: Tensor, exact: float, probes: int, method: str) -> Estimate:
    return Estimate(
        exact + float(forms.mean()), float(forms.std()) / len(forms) ** 0.5, probes, method
    )
