"""Positions of domain branches, of their graph and of the student in flat vectors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.core.flat import Layout
from fedflat.models.domain_branches import ADJACENCY, BRANCHES, STUDENT


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
