"""Clusters of like clients, dealt out over the groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedflat.client.asks import Describer
from fedflat.errors import SettingError, number
from fedflat.language.spelling import register
from fedflat.topology.grouping.dissimilarity import Vectors, squares
from fedflat.topology.grouping.grouping import Filling, Groups, in_order

STEPS = 100
STILL = 1e-4
"""Of the vectors' variance: centres that move less are at rest."""


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
        self, representers: Vectors, sizes: Sequence[int], rng: np.random.Generator, *, classes: int | None = None
    ) -> Groups:
        """See `Grouping.assign`."""
        vectors = self.checked(representers, sizes)
        if self.clusters is not None and self.clusters > len(vectors):
            raise SettingError(
                f"kmeans: {self.clusters} clusters cannot be made of {len(vectors)} clients. Lower clusters."
            )
        wanted = self.clusters or classes
        if wanted is None:
            raise SettingError("kmeans: these data have no classes to take as many clusters. Say clusters=...")
        labels = cluster(vectors, min(wanted, len(vectors)), rng)
        return self.fill(in_order(dealt(labels.tolist())), sizes, self.d_min, self.k_max)


def dealt(labels: Sequence[int]) -> list[int]:
    """The clients in the order they are dealt: round the clusters, the last client of each, until all are empty.

    >>> dealt([0, 0, 0, 1, 1, 2, 0, 1])
    [6, 7, 5, 2, 4, 1, 3, 0]
    """
    clusters = [[client for client, at in enumerate(labels) if at == label] for label in sorted(set(labels))]
    order = []
    while any(clusters):
        order += [members.pop() for members in clusters if members]
    return order


def cluster(vectors: Vectors, count: int, rng: np.random.Generator) -> np.ndarray:
    """The cluster of each vector, by Lloyd's algorithm, started as k-means++ does. None is empty."""
    centres = _spread(vectors, count, rng)
    rest, labels = STILL * float(vectors.var(0).mean()), np.zeros(len(vectors), np.int64)
    for _ in range(STEPS):
        distances = squared_distances(vectors, centres)
        labels = np.asarray(distances.argmin(1))
        _fill_empty(labels, distances)
        before, centres = centres, means(vectors, labels, count)
        if float(((centres - before) ** 2).sum()) <= rest:
            break
    return labels


def squared_distances(vectors: Vectors, centres: Vectors) -> Vectors:
    """Of each vector, in rows, to each centre."""
    found: Vectors = squares(vectors)[:, None] + squares(centres) - 2 * vectors @ centres.T
    return np.maximum(found, 0)


def means(vectors: Vectors, labels: np.ndarray, count: int) -> Vectors:
    """The mean of each cluster, none of which may be empty."""
    sizes = np.bincount(labels, minlength=count)
    starts = np.cumsum(sizes) - sizes
    found: Vectors = np.add.reduceat(vectors[np.argsort(labels, kind="stable")], starts) / sizes[:, None]
    return found


def _spread(vectors: Vectors, count: int, rng: np.random.Generator) -> Vectors:
    """Vectors far apart: each is drawn in proportion to its squared distance to those before."""
    chosen = [int(rng.integers(len(vectors)))]
    nearest = squared_distances(vectors, vectors[chosen])[:, 0]
    nearest[chosen] = 0
    while len(chosen) < count:
        total = nearest.sum()
        others = np.setdiff1d(np.arange(len(vectors)), chosen)
        at = rng.choice(len(vectors), p=nearest / total) if total > 0 else others[rng.integers(len(others))]
        chosen.append(int(at))
        nearest = np.minimum(nearest, squared_distances(vectors, vectors[[at]])[:, 0])
        nearest[chosen] = 0
    return vectors[chosen]


def _fill_empty(labels: np.ndarray, distances: Vectors) -> None:
    """Let each cluster without members have the vector that is farthest from its own centre, and not alone there."""
    own = distances[np.arange(len(labels)), labels]
    for empty in np.setdiff1d(np.arange(distances.shape[1]), labels):
        alone = np.bincount(labels, minlength=distances.shape[1])[labels] == 1
        far = int(np.argmax(np.where(alone, -1, own)))
        labels[far], own[far] = empty, 0


kmeans = register("grouping", "kmeans")(KMeans)
