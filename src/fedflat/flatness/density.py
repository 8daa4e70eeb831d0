"""The spectral density: how many eigenvalues there are of each size.

Ghorbani, Krishnan and Xiao, An Investigation into Neural Net Optimization via Hessian Eigenvalue
Density, ICML 2019 (arXiv 1901.10159): stochastic Lanczos quadrature. Lanczos from a random vector
gives nodes and weights with the moments of the spectrum as that vector sees it; their mean over
vectors, each node blurred into a Gaussian, is the density.

As many vectors as there is memory for walk in step, so that each product is one of a block. Lanczos
vectors are not orthogonalised again: that makes copies of nodes, which share the weight of one, and
saves keeping all vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.errors import MOST_AT_ONCE, number
from fedflat.flatness.hessian import Operator
from fedflat.flatness.trace import MEMORY, columns_of, sign_blocks

STEPS = 90
WALK = 6
"""Vectors of memory for each random vector: itself, those of three steps, and two for products."""


@dataclass(frozen=True)
class Density:
    """The density ``y`` at the points ``x``; it integrates to 1."""

    x: Tensor
    y: Tensor
    width: float
    """The standard deviation of the blur."""


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
    """The density of eigenvalues, blurred by ``blur`` of their range."""
    number("density", "probes", probes, low=1, whole=True)
    number("density", "steps", steps, low=1, whole=True)
    number("density", "points", points, low=2, high=MOST_AT_ONCE, whole=True)
    number("density", "blur", blur, low=0, open_low=True)
    blocks = sign_blocks(op, probes, min(probes, columns_of(op, WALK, memory)), seed)
    found = [quadrature(op, block, steps) for block in blocks]
    nodes, weights = (torch.cat(parts) for parts in zip(*found, strict=True))
    seen = nodes[weights > 1e-14]
    low, high = float(seen.min()), float(seen.max())
    width = blur * ((high - low) or max(abs(high), 1.0))
    x = torch.linspace(low - 6 * width, high + 6 * width, points, dtype=torch.float64)
    y = torch.zeros_like(x)
    for node, weight in zip(nodes.flatten(), weights.flatten() / probes, strict=True):
        y += weight * torch.exp(-0.5 * ((x - node) / width) ** 2) / (width * (2 * torch.pi) ** 0.5)
    return Density(x, y, width)


def quadrature(op: Operator, starts: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights, a row for each column of ``starts``: the spectrum as that vector sees
    it."""
    steps = min(steps, op.shape[0])
    v = starts / torch.linalg.vector_norm(starts, dim=0)
    before, off = torch.zeros_like(v), torch.zeros_like(v[0])
    diagonal, beside = [], []
    for _ in range(steps):
        ahead = (op @ v).sub_(off * before)
        along = (v * ahead).sum(dim=0)
        ahead.sub_(along * v)
        off = torch.linalg.vector_norm(ahead, dim=0)
        ended = off <= torch.finfo(op.dtype).eps * (along.abs() + 1e-30) * op.shape[0] ** 0.5
        off = torch.where(ended, 0.0, off)
        before, v = v, ahead.div_(torch.where(ended, torch.inf, off))
        diagonal.append(along)
        beside.append(off)
    return _nodes(
        torch.stack(diagonal, dim=1).double().cpu(), torch.stack(beside, dim=1).double().cpu()
    )


def _nodes(diagonal: Tensor, beside: Tensor) -> tuple[Tensor, Tensor]:
    matrices = torch.diag_embed(diagonal)
    if diagonal.shape[1] > 1:
        side = beside[:, :-1]
        matrices = matrices + torch.diag_embed(side, offset=1) + torch.diag_embed(side, offset=-1)
    nodes, vectors = torch.linalg.eigh(matrices)
    return nodes, vectors[:, 0, :] ** 2
