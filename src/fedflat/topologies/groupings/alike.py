"""Groups of similar clients: by their descriptions, or by a column of the data such as a town."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedflat.client.instructions import Describer
from fedflat.data.k_means import k_means
from fedflat.errors import LARGEST_SEED, SettingError, number
from fedflat.registry.specs import register
from fedflat.topologies.groupings.dissimilarity import Vectors
from fedflat.topologies.groupings.grouping import Grouping, Groups


@dataclass(frozen=True, repr=False)
class Alike(Grouping):
    """The groups are the clusters of k-means on the clients' descriptions.

    count
        Number of groups, at most the number of clients. No group is empty.
    psi
        The description, as in ``greedy``; by default the labels.
    """

    count: int
    psi: str | Describer = "labels"

    def __post_init__(self) -> None:
        number("alike", "count", self.count, low=1, whole=True)
        self.check_psi()

    def possible(self, sizes: Sequence[int]) -> None:
        """Refuse more groups than clients."""
        if self.count > len(sizes):
            raise SettingError(
                f"alike: {self.count} groups cannot be made of {len(sizes)} clients. Lower count."
            )

    def assign(
        self,
        representers: Vectors,
        sizes: Sequence[int],
        rng: np.random.Generator,
        *,
        classes: int | None = None,
    ) -> Groups:
        """Return the clusters, in the order of their first clients."""
        vectors = self.checked(representers, sizes)
        self.possible(sizes)
        labels = k_means(vectors, self.count, int(rng.integers(LARGEST_SEED)))
        return sorted(np.flatnonzero(labels == label).tolist() for label in range(self.count))


@dataclass(frozen=True, repr=False)
class ByColumn(Grouping):
    """A group for each value of a column of the data, such as ``"town"``.

    Data sets list their columns (`Domains.facets`). All examples of a client must have the same
    value.
    """

    psi = None

    column: str

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise SettingError(
                f"by_column: column must be a name, such as 'town', found {self.column!r}."
            )

    @property
    def needs_column(self) -> str | None:
        return self.column

    def assign(
        self,
        representers: Vectors,
        sizes: Sequence[int],
        rng: np.random.Generator,
        *,
        classes: int | None = None,
    ) -> Groups:
        """Return the groups in the order of the values. Representers are the values, as numbers."""
        values = representers[:, 0]
        return [np.flatnonzero(values == value).tolist() for value in np.unique(values)]


alike = register("grouping", "alike")(Alike)
by_column = register("grouping", "by_column")(ByColumn)
