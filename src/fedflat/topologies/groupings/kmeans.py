"""Groups that take clients from clusters of similar clients in turn (FedSeq's k-means grouping)."""

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
    """k-means forms clusters of similar clients; groups then take one client from each cluster in
    turn.

    psi
        See ``greedy``.
    d_min, k_max
        See ``random``.
    clusters
        Number of clusters; None for as many as the data have classes, or as clients if there are
        fewer.
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
                f"kmeans: {self.clusters} clusters cannot be made of {len(vectors)} clients. Lower "
                "clusters."
            )
        wanted = self.clusters or classes
        if wanted is None:
            raise SettingError(
                "kmeans: the number of clusters is not given, and these data have no classes to "
                "take it from. Give clusters=..."
            )
        labels = k_means(vectors, min(wanted, len(vectors)), int(rng.integers(LARGEST_SEED)))
        return self.fill(in_order(round_robin(labels.tolist())), sizes, self.d_min, self.k_max)


def round_robin(labels: Sequence[int]) -> list[int]:
    """Return the clients in turn from each cluster, its last client first, until all are empty.

    >>> round_robin([0, 0, 0, 1, 1, 2, 0, 1])
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
