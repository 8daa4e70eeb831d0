"""Clusters of like clients, dealt out over the groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedflat.client.instructions import Describer
from fedflat.data.k_means import k_means
from fedflat.errors import LARGEST_SEED, SettingError, number
from fedflat.registry.specs import register
from fedflat.topologies.groupings.dissimilarity import Vectors
from fedflat.topologies.groupings.grouping import Filling, Groups, in_order


@dataclass(frozen=True, repr=False)
class KMeans(Filling):
    """k-means puts like clients together; groups then take one from each cluster in turn.

    psi
        See ``greedy``.
    d_min, k_max
        See ``random``.
    clusters
        None: as many as the data have classes, or clients if there are fewer.
    """

    psi: str | Describer = "confidence"
    d_min: int = 1000
    k_max: int = 11
    clusters: int | None = None

    def __post_init__(self) -> None:
        self.check_psi()
        self.check_limits(self.d_min, self.k_max)
        if self.clusters is not None:
            number("kmeans", "clusters", self.clusters, low=1, whole=True)

    def assign(
        self,
        representers: Vectors,
        sizes: Sequence[int],
        rng: np.random.Generator,
        *,
        classes: int | None = None,
    ) -> Groups:
        vectors = self.checked(representers, sizes)
        if self.clusters is not None and self.clusters > len(vectors):
            raise SettingError(
                f"kmeans: {self.clusters} clusters cannot be made of {len(vectors)} clients. Lower clusters."
            )
        wanted = self.clusters or classes
        if wanted is None:
            raise SettingError(
                "kmeans: these data have no classes to take as many clusters. Say clusters=..."
            )
        labels = k_means(vectors, min(wanted, len(vectors)), int(rng.integers(LARGEST_SEED)))
        return self.fill(in_order(dealt(labels.tolist())), sizes, self.d_min, self.k_max)


def dealt(labels: Sequence[int]) -> list[int]:
    """The clients in the order they are dealt: round the clusters, the last client of each, until
    all are empty.

    >>> dealt([0, 0, 0, 1, 1, 2, 0, 1])
    [6, 7, 5, 2, 4, 1, 3, 0]
    """
    clusters = [
        [client for client, at in enumerate(labels) if at == label] for label in sorted(set(labels))
    ]
    order = []
    while any(clusters):
        order += [members.pop() for members in clusters if members]
    return order


kmeans = register("grouping", "kmeans")(KMeans)
