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
    """Clients in random order, whatever they hold: nothing about them need be known but their
    sizes.

    d_min
        A group is filled until it has as many examples.
    k_max
        No group has more clients.
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
        """See `Grouping.assign`; the representers are not looked at."""
        order = rng.permutation(len(sizes)).tolist()
        return self.fill(in_order(order), sizes, self.d_min, self.k_max)


random = register("grouping", "random")(Random)
