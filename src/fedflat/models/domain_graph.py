"""The graph of domains: row-normalized matrices that mix the parameters of domain branches; positions
of the branches, of the graph and of the student in flat vectors.

Every matrix has ``beta`` on its diagonal. The rest of a row is shared among the other domains in
proportion to their similarity ``h``:

    A_ii = beta,   A_ij = (1 - beta) h_ij / sum_{m != i} h_im

Rows sum to 1. The matrix is not symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.core.flat import Layout
from fedflat.models.domain_branches import ADJACENCY, BRANCHES, STUDENT

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


@dataclass(frozen=True)
class StudentSlices:
    """The positions of the student in the vectors of parameters and of buffers."""

    params: slice
    buffers: slice


def student_slices(layout: Layout) -> StudentSlices:
    """The positions of the student's parameters and buffers, which are contiguous."""
    params = _span(layout.names, layout.sizes)
    buffers = _span(layout.buffer_names, layout.buffer_sizes)
    return StudentSlices(params, buffers)


def _span(names: tuple[str, ...], sizes: tuple[int, ...]) -> slice:
    mine = [name.startswith(f"{STUDENT}.") for name in names]
    first = mine.index(True) if any(mine) else 0
    begin = sum(sizes[:first])
    return slice(begin, begin + sum(size for size, own in zip(sizes, mine, strict=True) if own))


def branch_rows(layout: Layout, params: Tensor, domains: int) -> Tensor:
    """``V``: the parameters of all branches, one row per domain, all layers side by side."""
    found = [
        params[place].view(domains, -1)
        for name, place in layout.slices.items()
        if name.rpartition(".")[2] == BRANCHES
    ]
    return torch.cat(found, dim=1)


def graph_slice(layout: Layout) -> slice:
    """The position of A in the vector of buffers."""
    at = layout.buffer_names.index(ADJACENCY)
    begin = sum(layout.buffer_sizes[:at])
    return slice(begin, begin + layout.buffer_sizes[at])
