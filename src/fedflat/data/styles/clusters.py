"""Groups of clients with similar styles, after LADD (Shenaj et al., WACV 2023, arXiv:2210.02326), Algorithm 7.

    for each number of clusters H:  k-means, the best of ten starts by the sum of squares
    s_k = (b_k - a_k) / max(a_k, b_k)     a_k: mean distance to the others of its cluster, b_k: least mean distance to
                                          another cluster; 0 for a client alone
    keep the H with the largest mean of s_k; of equal ones the smallest
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedflat.errors import LARGEST_SEED, SettingError, number

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class StyleClusters:
    """Which cluster each client is in, the clusters' mean styles, and how well they are apart."""

    labels: Labels
    centroids: Floats
    silhouette: float
    tried: dict[int, float]
    """The mean silhouette of each number of clusters that was tried."""

    def nearest(self, styles: ArrayLike) -> Labels:
        """The cluster of each style by the nearest mean: how a test image finds its model."""
        return np.asarray(_distances(_flat(styles), self.centroids).argmin(1), np.int64)


def style_clusters(styles: ArrayLike, *, fewest: int = 4, most: int = 19, seed: int = 0) -> StyleClusters:
    """Clusters of the clients' styles, one row a client, as many as the silhouette likes best."""
    points = _flat(styles)
    number("style clusters", "fewest", fewest, low=1, whole=True)
    number("style clusters", "most", most, low=fewest, whole=True)
    number("style clusters", "seed", seed, low=0, high=LARGEST_SEED, whole=True)
    different = len(np.unique(points, axis=0))
    last = min(most, max(len(points) - 1, 1), different)
    if last < fewest:
        raise SettingError(
            f"style clusters: at least {fewest} clusters were asked for, but {len(points)} clients with {different} "
            f"different styles allow at most {last}. Say fewest={last} or less."
        )
    found = {count: _k_means(points, count, seed) for count in range(fewest, last + 1)}
    tried = {count: float(silhouettes(points, labels).mean()) for count, labels in found.items()}
    best = max(tried, key=lambda count: (tried[count], -count))
    labels = found[best]
    centroids = np.stack([points[labels == c].mean(0) for c in range(best)])
    return StyleClusters(labels, centroids, tried[best], tried)


def silhouettes(points: ArrayLike, labels: ArrayLike) -> Floats:
    """How well each point lies in its cluster, from -1 to 1; 0 where it is alone or there is but one cluster.

    >>> round(float(silhouettes([[0], [1], [10], [11], [30]], [0, 0, 1, 1, 2]).mean()), 8)
    0.7197995
    """
    x, y = _flat(points), np.asarray(labels)
    names, members = np.unique(y, return_counts=True)
    if len(names) < 2:
        return np.zeros(len(x))
    own = y[:, None] == names
    sums = _distances(x, x) @ own
    size = own @ members
    a = (sums * own).sum(1) / np.maximum(size - 1, 1)
    b = np.where(own, np.inf, sums / members).min(1)
    scale = np.maximum(a, b)
    return np.where((size > 1) & (scale > 0), (b - a) / np.where(scale > 0, scale, 1), 0.0)


def _k_means(points: Floats, count: int, seed: int) -> Labels:
    from sklearn.cluster import KMeans

    if count == 1:
        return np.zeros(len(points), np.int64)
    found = KMeans(count, n_init=10, random_state=seed % 2**32).fit(points).labels_
    # Clusters are numbered by their first member, whatever the start was.
    _, first = np.unique(found, return_index=True)
    rank = np.argsort(np.argsort(first))
    return np.asarray(rank[found], np.int64)


def _distances(a: Floats, b: Floats) -> Floats:
    return np.stack([np.sqrt(((b - row) ** 2).sum(1)) for row in a])


def _flat(styles: ArrayLike) -> Floats:
    points = np.asarray(styles, np.float64)
    if points.ndim < 2 or points.size == 0 or not np.isfinite(points).all():
        raise SettingError(
            f"styles must be one row of finite numbers for each client, found an array of shape {points.shape}."
        )
    return points.reshape(len(points), -1)
