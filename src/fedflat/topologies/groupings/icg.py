"""Inter-cluster grouping: each group has one client of every cluster of similar clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedflat.client.instructions import Describer
from fedflat.errors import SettingError, number
from fedflat.registry.specs import register
from fedflat.topologies.groupings.dissimilarity import Vectors
from fedflat.topologies.groupings.grouping import Grouping, Groups

STEPS = 10
"""Largest number of k-means steps."""


@dataclass(frozen=True, repr=False)
class Icg(Grouping):
    """``groups`` groups whose numbers of clients differ by at most one.

    Random clients, as many as the groups can share evenly, are put into clusters of similar ones.
    Each cluster has one client for every group. Each group gets a random client from each cluster,
    and the remaining clients are added one per group.

    groups
        Number of groups, at most the number of clients.
    psi
        See ``greedy``.
    """

    groups: int
    psi: str | Describer = "confidence"

    def __post_init__(self) -> None:
        number("icg", "groups", self.groups, low=1, whole=True)
        self.check_psi()

    @property
    def count(self) -> int:
        """Number of groups."""
        return self.groups

    def into(self, groups: int) -> Icg:
        """Return the same with another number of groups."""
        return replace(self, groups=groups)

    def possible(self, sizes: Sequence[int]) -> None:
        """Refuse more groups than clients."""
        if self.groups > len(sizes):
            raise SettingError(
                f"icg: {self.groups} groups cannot be made of {len(sizes)} clients. Lower groups."
            )

    def assign(
        self,
        representers: Vectors,
        sizes: Sequence[int],
        rng: np.random.Generator,
        *,
        classes: int | None = None,
    ) -> Groups:
        """Return the groups. Sizes do not matter."""
        vectors = self.checked(representers, sizes)
        self.possible(sizes)
        order = rng.permutation(len(vectors))
        kinds = len(vectors) // self.groups
        clustered, rest = np.split(order, [kinds * self.groups])
        labels = balanced_kmeans(
            vectors[clustered], rng.permutation(np.repeat(np.arange(kinds), self.groups))
        )
        groups: Groups = [[] for _ in range(self.groups)]
        for kind in range(kinds):
            for group, client in zip(
                groups, rng.permutation(clustered[labels == kind]), strict=True
            ):
                group.append(int(client))
        for group, client in zip(groups, rest, strict=False):
            group.append(int(client))
        return groups


def balanced_kmeans(vectors: Vectors, labels: np.ndarray) -> np.ndarray:
    """Run at most `STEPS` steps of k-means in which all clusters keep their equal size.

    One thread does the work, because the order of sums depends on the number of threads.
    """
    from sklearn.metrics.pairwise import euclidean_distances
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    count = int(labels.max()) + 1
    with threadpool_limits(1):
        for _ in range(STEPS if count > 1 else 0):
            means = np.stack([vectors[labels == label].mean(0) for label in range(count)])
            now = balanced(euclidean_distances(vectors, means, squared=True), len(vectors) // count)
            if (now == labels).all():
                break
            labels = now
    return labels


def balanced(cost: Vectors, capacity: int) -> np.ndarray:
    """Return the column of each row in the cheapest assignment of ``capacity`` rows per column.

    >>> balanced(np.array([[0.0, 1.0], [0.0, 5.0], [1.0, 1.5], [0.0, 9.0]]), 2).tolist()
    [1, 0, 1, 0]
    """
    from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]

    columns = linear_sum_assignment(np.repeat(cost, capacity, axis=1))[1]
    return np.asarray(columns // capacity)


icg = register("grouping", "icg")(Icg)
