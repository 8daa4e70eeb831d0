"""Groups of clients with similar images, as in LADD, Algorithm 7.

Shenaj et al., WACV 2023, arXiv:2210.02326.

    for each number of clusters H:  k-means, the best of ten starts by the sum of squares
    s_k = (b_k - a_k) / max(a_k, b_k)     a_k: mean distance to the others of its cluster,
                                          b_k: least mean distance to another cluster;
                                          s_k = 0 for a client alone
    use the H with the largest mean of s_k; of equal ones the smallest
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from fedflat.client.describers.mean_style import MeanStyle
from fedflat.data.examples import ClientData
from fedflat.data.k_means import Labels, k_means
from fedflat.errors import LARGEST_SEED, SettingError, number
from fedflat.registry.specs import register
from fedflat.topologies.groupings.dissimilarity import Vectors
from fedflat.topologies.groupings.grouping import Grouping, Groups


@dataclass(frozen=True, repr=False)
class ByStyle(Grouping):
    """k-means on the clients' styles. The number of groups has the largest mean silhouette.

    fewest, most
        The numbers of groups to try; at most one less than there are clients.
    psi
        How a style is computed; see ``mean_style``.
    """

    fewest: int = 4
    most: int = 19
    psi: MeanStyle = MeanStyle()

    def __post_init__(self) -> None:
        number("by_style", "fewest", self.fewest, low=1, whole=True)
        number("by_style", "most", self.most, low=self.fewest, whole=True)
        if not isinstance(self.psi, MeanStyle):
            raise SettingError(
                f"by_style: psi must be a style, such as mean_style(half=1), found {self.psi!r}."
            )

    def assign(
        self,
        representers: Vectors,
        sizes: Sequence[int],
        rng: np.random.Generator,
        *,
        classes: int | None = None,
    ) -> Groups:
        """Return the groups in the order of their first clients."""
        styles, seed = self.checked(representers, sizes), int(rng.integers(LARGEST_SEED))
        labels = style_clusters(styles, fewest=self.fewest, most=self.most, seed=seed).labels
        return [np.flatnonzero(labels == label).tolist() for label in range(labels.max() + 1)]

    def nearest(
        self, styles: Sequence[Tensor], groups: Sequence[Sequence[int]], data: ClientData
    ) -> Tensor:
        """Return for each image the group whose mean style is nearest to the image's own."""
        own = torch.stack([style.double().flatten() for style in styles])
        means = torch.stack([own[list(group)].mean(0) for group in groups])
        each = self.psi.each(data, torch.arange(len(data))).flatten(1)
        distances = torch.cdist(each, means, compute_mode="donot_use_mm_for_euclid_dist")
        return distances.argmin(1)


@dataclass(frozen=True)
class StyleClusters:
    """The cluster of each client, and the silhouettes."""

    labels: Labels
    """Cluster of each client; clusters are numbered by their first member."""
    silhouette: float
    """Mean silhouette of the chosen clusters, from -1 to 1."""
    tried: dict[int, float]
    """The mean silhouette of each number of clusters that was tried."""


def style_clusters(
    styles: ArrayLike, *, fewest: int = 4, most: int = 19, seed: int = 0
) -> StyleClusters:
    """Cluster the clients' styles, one row per client.

    The number of clusters is the one with the largest silhouette.
    """
    points = np.asarray(styles, np.float64)
    if points.ndim < 2 or points.size == 0 or not np.isfinite(points).all():
        raise SettingError(
            "styles must be one row of finite numbers for each client, found an array of shape "
            f"{points.shape}."
        )
    points = points.reshape(len(points), -1)
    number("style clusters", "fewest", fewest, low=1, whole=True)
    number("style clusters", "most", most, low=fewest, whole=True)
    number("style clusters", "seed", seed, low=0, high=LARGEST_SEED, whole=True)
    different = len(np.unique(points, axis=0))
    last = min(most, max(len(points) - 1, 1), different)
    if last < fewest:
        raise SettingError(
            f"style clusters: at least {fewest} clusters were asked for, but {len(points)} clients "
            f"with {different} different styles allow at most {last}. Use fewest={last} or less."
        )
    found = {count: k_means(points, count, seed) for count in range(fewest, last + 1)}
    tried = {count: silhouette(points, labels) for count, labels in found.items()}
    best = max(tried, key=lambda count: (tried[count], -count))
    _, first = np.unique(found[best], return_index=True)
    return StyleClusters(first.argsort().argsort()[found[best]], tried[best], tried)


def silhouette(points: ArrayLike, labels: ArrayLike) -> float:
    """Return the mean silhouette, from -1 to 1.

    It is 0 if there is one cluster or if every point is alone.

    >>> round(silhouette([[0], [1], [10], [11], [30]], [0, 0, 1, 1, 2]), 8)
    0.7197995
    """
    from scipy.spatial.distance import cdist  # type: ignore[import-untyped]
    from sklearn.metrics import silhouette_score

    if not 1 < len(np.unique(labels)) < len(np.asarray(labels)):
        return 0.0
    return float(silhouette_score(cdist(points, points), labels, metric="precomputed"))


by_style = register("grouping", "by_style")(ByStyle)
