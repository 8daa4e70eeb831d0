"""Clients whose images look alike, as many groups as the silhouette likes best (LADD)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedflat.client.describers.mean_style import MeanStyle
from fedflat.data.examples import ClientData
from fedflat.data.styles.clusters import style_clusters
from fedflat.errors import LARGEST_SEED, SettingError, number
from fedflat.language.spelling import register
from fedflat.topology.grouping.dissimilarity import Vectors
from fedflat.topology.grouping.grouping import Grouping, Groups


@dataclass(frozen=True, repr=False)
class ByStyle(Grouping):
    """K-means on the clients' styles, for each number of groups; the largest mean silhouette decides.

    fewest, most
        The numbers of groups that are tried; at most one less than there are clients.
    psi
        How a style is taken; see ``mean_style``.
    """

    fewest: int = 4
    most: int = 19
    psi: MeanStyle = MeanStyle()

    def __post_init__(self) -> None:
        number("by_style", "fewest", self.fewest, low=1, whole=True)
        number("by_style", "most", self.most, low=self.fewest, whole=True)
        if not isinstance(self.psi, MeanStyle):
            raise SettingError(f"by_style: psi must be a style, such as mean_style(half=1), found {self.psi!r}.")

    def about(self, sizes: Sequence[int]) -> Groups:
        """See `Grouping.about`: the fewest."""
        count = min(self.fewest, len(sizes))
        return [part.tolist() for part in np.array_split(np.arange(len(sizes)), count)]

    def assign(
        self, representers: Vectors, sizes: Sequence[int], rng: np.random.Generator, *, classes: int | None = None
    ) -> Groups:
        """See `Grouping.assign`; groups stand in the order of their first clients."""
        styles, seed = self.checked(representers, sizes), int(rng.integers(LARGEST_SEED))
        labels = style_clusters(styles, fewest=self.fewest, most=self.most, seed=seed).labels
        return [np.flatnonzero(labels == label).tolist() for label in range(labels.max() + 1)]

    def nearest(self, styles: Sequence[Tensor], groups: Sequence[Sequence[int]], data: ClientData) -> Tensor:
        """For each image the group whose clients' mean style is nearest to the image's own."""
        own = torch.stack([style.double().flatten() for style in styles])
        means = torch.stack([own[list(group)].mean(0) for group in groups])
        each = self.psi.each(data, torch.arange(len(data))).flatten(1)
        far = torch.cdist(each, means, compute_mode="donot_use_mm_for_euclid_dist")
        return far.argmin(1)


by_style = register("grouping", "by_style")(ByStyle)
