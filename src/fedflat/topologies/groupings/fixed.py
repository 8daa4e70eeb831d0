"""Given groups, and random groups of equal size. Neither needs descriptions of the clients."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedflat.errors import SettingError, number, shown
from fedflat.registry.specs import register
from fedflat.topologies.groupings.dissimilarity import Vectors
from fedflat.topologies.groupings.grouping import Grouping, Groups


@dataclass(frozen=True, repr=False)
class RandomGroups(Grouping):
    """``count`` random groups of about equal size, by the run's seed."""

    psi = None

    count: int

    def __post_init__(self) -> None:
        number("random_groups", "count", self.count, low=1, whole=True)

    def into(self, groups: int) -> RandomGroups:
        """Return the same with another number of groups."""
        return RandomGroups(groups)

    def assign(
        self,
        representers: Vectors,
        sizes: Sequence[int],
        rng: np.random.Generator,
        *,
        classes: int | None = None,
    ) -> Groups:
        """Cut a random order into groups. Clients and groups are then sorted."""
        if self.count > len(sizes):
            raise SettingError(
                f"{self.count} groups were asked for, but there are only {len(sizes)} clients. Ask "
                "for fewer groups, or split the data into more clients."
            )
        order = rng.permutation(len(sizes))
        return sorted(sorted(part.tolist()) for part in np.array_split(order, self.count))


@dataclass(frozen=True, repr=False)
class GivenGroups(Grouping):
    """The given groups, each a list of clients.

    members
        The groups, as in ``[[0, 2], [1]]``.
    """

    psi = None

    members: tuple[tuple[int, ...], ...]

    def assign(
        self,
        representers: Vectors,
        sizes: Sequence[int],
        rng: np.random.Generator,
        *,
        classes: int | None = None,
    ) -> Groups:
        try:
            return [[operator.index(client) for client in group] for group in self.members]
        except TypeError:
            raise SettingError(
                "given_groups: members must be lists of clients, as in [[0, 2], [1]], found "
                f"{shown(self.members)}."
            ) from None


def grouping_of(owner: str, given: object) -> Grouping:
    """Return the given grouping. A number means that many random groups."""
    if isinstance(given, Grouping):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        return RandomGroups(given)
    raise SettingError(
        f"{owner}: groups must be a number or a grouping such as random_groups(5), found "
        f"{shown(given)}."
    )


given_groups = register("grouping", "given_groups")(GivenGroups)
random_groups = register("grouping", "random_groups")(RandomGroups)
