"""The spectral density: how many eigenvalues there are of each size.

Ghorbani, Krishnan and Xiao, An Investigation into Neural Net Optimization via Hessian Eigenvalue
Density, ICML 2019 (arXiv 1901.10159): stochastic Lanczos quadrature. Lanczos from a random vector
gives nodes and weights with the moments of the spectrum as weighted by that vector. The density is
their mean over vectors, with each node blurred into a Gaussian.

As many vectors as fit into memory advance together, so that each product is one of a block. Lanczos
vectors are not orthogonalised again. This makes copies of nodes, which share the weight of one, but
needs no memory for all vectors.
"""

from __future__ import annotations

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
