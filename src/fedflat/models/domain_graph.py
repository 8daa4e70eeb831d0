"""The graph of domains: row-normalized matrices that mix the parameters of domain branches.

Every matrix has ``beta`` on its diagonal. The rest of a row is shared among the other domains in
proportion to their similarity ``h``:

    A_ii = beta,   A_ij = (1 - beta) h_ij / sum_{m != i} h_im

Rows sum to 1. The matrix is not symmetric.
"""

from __future__ import annotations

import torch
from torch import Tensor

TINY = 1e-12
"""Stands for the distance of domains whose parameters are equal."""


def similarity_graph(similarity: Tensor, beta: float) -> Tensor:
    """The matrix A for similarities ``h``, one row per domain; their diagonal is not used.

    >>> similarity_graph(torch.tensor([[0.0, 3.0, 1.0], [3.0, 0.0, 1.0], [1.0, 1.0, 0.0]]), 0.5)[0]
    tensor([0.5000, 0.3750, 0.1250])
    """
    domains = len(similarity)
    eye = torch.eye(domains, dtype=similarity.dtype, device=similarity.device)
    if domains == 1:
        return eye
    others = similarity * (1 - eye)
    return beta * eye + (1 - beta) * others / others.sum(1, keepdim=True)


def distance_graph(rows: Tensor, beta: float) -> Tensor:
    """The matrix A for ``h_ij = 1 / ||V_i - V_j||``; ``rows`` has the parameters of each domain.

    >>> distance_graph(torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 10.0]]), 0.5)[0]
    tensor([0.5000, 0.3333, 0.1667])
    """
    exact = rows.double()
    distances = torch.stack([torch.linalg.vector_norm(exact - row, dim=1) for row in exact])
    return similarity_graph(1 / distances.clamp(min=TINY), beta).to(rows.dtype)


def hamming_graph(domains: int, beta: float) -> Tensor:
    """The matrix A for ``h_ij = 1 / (number of differing binary digits of i and j)``.

    >>> hamming_graph(4, 0.5)[0]
    tensor([0.5000, 0.2000, 0.2000, 0.1000], dtype=torch.float64)
    """
    differing = [[max((i ^ j).bit_count(), 1) for j in range(domains)] for i in range(domains)]
    return similarity_graph(1 / torch.tensor(differing, dtype=torch.float64), beta)


def random_graph(domains: int) -> Tensor:
    """Rows of uniform random numbers divided by their sums, by PyTorch's current random state."""
    drawn = torch.rand(domains, domains)
    return drawn / drawn.sum(1, keepdim=True)
