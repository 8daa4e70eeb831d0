"""The trace of a symmetric operator from its products with random vectors.

Hutchinson, A Stochastic Estimator of the Trace of the Influence Matrix, 1990: the mean of ``z^T H z``, z of
random signs.
Meyer, Musco, Musco and Woodruff, Hutch++: Optimal Stochastic Trace Estimation, SOSA 2021 (arXiv 2010.09649):
a third of the products find a subspace Q in which most of H lives, a third give the trace there exactly, and
Hutchinson estimates the rest with the last third. Better if a few eigenvalues carry the trace.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.engine.seeds import torch_generator
from fedflat.errors import choice, number
from fedflat.flatness.hessian import Operator

BLOCK = 10
METHODS = ("hutchinson", "hutch++")


@dataclass(frozen=True)
class Estimate:
    """A mean and its standard error over the random vectors."""

    mean: float
    stderr: float
    probes: int
    """Products it took."""
    method: str


def trace(op: Operator, probes: int = 100, *, method: str = "hutchinson", seed: int = 0) -> Estimate:
    """The trace by "hutchinson" or "hutch++", with ``probes`` products."""
    choice("trace", "method", method, METHODS)
    return hutchinson(op, probes, seed=seed) if method == "hutchinson" else hutch_plus_plus(op, probes, seed=seed)


def quadratic_forms(op: Operator, vectors: Tensor) -> Tensor:
    """``z^T H z`` for each column, in float64.

    >>> H = torch.tensor([[4.0, 1, 0], [1, 3, 1], [0, 1, -5]])
    >>> quadratic_forms(H, torch.tensor([[1.0, 1], [1, -1], [1, 1]])).tolist()
    [6.0, -2.0]
    """
    blocks = [(block.double() * (op @ block).double()).sum(dim=0) for block in vectors.split(BLOCK, dim=1)]
    return torch.cat(blocks)


def hutchinson(op: Operator, probes: int = 100, *, seed: int = 0) -> Estimate:
    """The mean of ``z^T H z`` over random signs."""
    number("hutchinson", "probes", probes, low=2, whole=True)
    counts = [min(BLOCK, probes - first) for first in range(0, probes, BLOCK)]
    forms = [quadratic_forms(op, signs(op, count, seed, i)) for i, count in enumerate(counts)]
    return _estimate(torch.cat(forms), 0.0, probes, "hutchinson")


def hutch_plus_plus(op: Operator, probes: int = 99, *, seed: int = 0) -> Estimate:
    """The trace in a subspace found by a third of the products, and an estimate of the rest."""
    number("hutch++", "probes", probes, low=6, whole=True)
    third = min(probes // 3, op.shape[0])
    basis: Tensor = torch.linalg.qr(op @ signs(op, third, seed, 0))[0]
    inside = float(quadratic_forms(op, basis).sum())
    rest = signs(op, third, seed, 1)
    rest = rest - basis @ (basis.T @ rest)
    return _estimate(quadratic_forms(op, rest), inside, 3 * third, "hutch++")


def signs(op: Operator, count: int, seed: int, *path: int) -> Tensor:
    """Columns of random signs."""
    rng = torch_generator(seed, "signs", *path)
    drawn = torch.randint(0, 2, (count, op.shape[0]), dtype=torch.int8, generator=rng)
    return drawn.mul_(2).sub_(1).T.to(dtype=op.dtype, device=op.device)


def _estimate(forms: Tensor, sure: float, probes: int, method: str) -> Estimate:
    return Estimate(sure + float(forms.mean()), float(forms.std()) / len(forms) ** 0.5, probes, method)
