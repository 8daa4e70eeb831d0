"""Groups of clients in random order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedflat.registry.specs import register
from fedflat.topologies.groupings.dissimilarity import Vectors
from fedflat.topologies.groupings.grouping import Filling, Groups, in_order


@dataclass(frozen=True, repr=False)
class Random(Filling):
    """Fills groups with clients in random order. Only their sizes are used.

    d_min
        A group is filled until it has this many examples.
    k_max
        Largest number of clients in a group.
    """

    psi = None

    d_min: int = 1000
    k_max: int = 11

    def __post_init__(self) -> None:
        self.check_limits(self.d_min, self.k_max)

    def assign(
        self,
        representers: Vectors,
        sizes: Sequence[int],
        rng: np.random.Generator,
        *,
        classes: int | None = None,
    ) -> Groups:
        """Return the groups. The representers are not used."""
        order = rng.permutation(len(sizes)).tolist()
        return self.fill(in_order(order), sizes, self.d_min, self.k_max)


random = register("grouping", "random")(Random)
