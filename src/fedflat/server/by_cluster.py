"""Means within clusters and over all of them, and teachers that follow: the server's arithmetic of LADD.

    shared   <- sum over the cohort of N_k shared_k / sum N_k
    own_c    <- the same over the cohort's members of cluster c; a cluster nobody came from keeps its own
    every omega rounds  teacher_c <- model_c                            before round t_start
                        teacher_c <- (n teacher_c + model_c) / (n + 1)  from then on; n counts from 0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedflat.errors import SettingError, number


def weighted_mean(vectors: Tensor, sizes: Sequence[float]) -> Tensor:
    """The mean of the rows, each counting by its size."""
    weight = torch.tensor(sizes, dtype=vectors.dtype, device=vectors.device)
    if len(sizes) != len(vectors) or not (weight > 0).all():
        raise SettingError(f"a mean of {len(vectors)} vectors needs a size above 0 for each, found {list(sizes)}.")
    return (weight / weight.sum()) @ vectors


def mean_by_cluster(before: Tensor, vectors: Tensor, sizes: Sequence[float], clusters: Sequence[int]) -> Tensor:
    """One row a cluster: the mean of its members among ``vectors``, or its row of ``before`` if it has none.

    >>> before, came = torch.tensor([[5.0], [6.0], [7.0]]), torch.tensor([[10.0], [20.0], [30.0]])
    >>> mean_by_cluster(before, came, [10, 30, 20], [0, 0, 1]).flatten().tolist()
    [17.5, 30.0, 7.0]
    """
    found = before.clone()
    for cluster in sorted(set(clusters)):
        if not 0 <= cluster < len(before):
            raise SettingError(f"clusters must be numbered below {len(before)}, found {cluster}.")
        members = [k for k, mine in enumerate(clusters) if mine == cluster]
        found[cluster] = weighted_mean(vectors[members], [sizes[k] for k in members])
    return found


@dataclass(frozen=True)
class Teacher:
    """A model that follows another: a copy of it every few rounds, and later the mean of such copies."""

    model: Tensor
    every: int
    """Rounds between two refreshes."""
    start: int
    """The completed rounds from which on it is a mean."""
    averaged: int = 0
    """How many models are in the mean."""

    def __post_init__(self) -> None:
        number("a teacher", "every", self.every, low=1, whole=True)
        number("a teacher", "start", self.start, low=0, whole=True)

    def after(self, completed: int, current: Tensor) -> Teacher:
        """The teacher after so many completed rounds, the model then being ``current``."""
        if completed % self.every:
            return self
        if completed < self.start:
            return replace(self, model=current.clone())
        mean = self.model + (current - self.model) / (self.averaged + 1)
        return replace(self, model=mean, averaged=self.averaged + 1)
