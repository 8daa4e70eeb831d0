"""Each class divided over the clients by a Dirichlet draw, with equal sizes (FedSeq's code)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedflat.data.partitions.dealing import (
    Index,
    class_counts,
    enough,
    even,
    pools_of,
    split_classes,
)
from fedflat.data.partitions.partition import Partition
from fedflat.errors import flag, number
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class ByClass(Partition):
    """Like ``dirichlet``, but with the most even of several draws and sizes made equal.

    Clients that hold their even share of all examples get none of the following classes. With
    ``draws=1`` and ``even=False`` it is ``dirichlet`` without a minimum size.

    alpha
        Concentration of each client's share. 0: examples sorted by class are cut into one piece for
        each client.
    draws
        Number of draws, of which the one with the most even sizes is used.
    even
        Then move random examples from clients with more than their even share to those with less.

    >>> parts = by_class(0.5).assign(np.repeat([0, 1, 2], 40), 6, np.random.default_rng(0))
    >>> {len(part) for part in parts}
    {20}
    """

    alpha: float
    draws: int = 100
    even: bool = True

    def __post_init__(self) -> None:
        number("by_class", "alpha", self.alpha, low=0, high=1e300)
        number("by_class", "draws", self.draws, low=1, high=10_000, whole=True)
        flag("by_class", "even", self.even)

    def assign(
        self,
        labels: Index,
        clients: int,
        rng: np.random.Generator,
        *,
        coarse: Index | None = None,
        users: Index | None = None,
    ) -> list[Index]:
        enough("by_class", len(labels), clients)
        pools = pools_of(labels, rng)
        if self.alpha == 0:
            shards = np.array_split(np.concatenate(pools), clients)
            return [np.sort(shards[k]) for k in rng.permutation(clients)]
        stock = np.array([len(pool) for pool in pools])
        draws = (
            class_counts(self.alpha, stock, clients, rng, balance=True) for _ in range(self.draws)
        )
        parts = split_classes(pools, min(draws, key=lambda counts: counts.sum(0).std()))
        return [np.sort(part) for part in (_make_even(parts, rng) if self.even else parts)]


def _make_even(parts: list[Index], rng: np.random.Generator) -> list[Index]:
    """Move random examples from larger to smaller parts until sizes differ by at most one."""
    sizes = np.array([len(part) for part in parts])
    wanted = np.empty_like(sizes)
    wanted[np.argsort(-sizes, kind="stable")] = even(int(sizes.sum()), len(parts))
    shuffled = [rng.permutation(part) for part in parts]
    surplus = rng.permutation(
        np.concatenate([part[size:] for part, size in zip(shuffled, wanted, strict=True)])
    )
    ends = np.cumsum(np.maximum(wanted - sizes, 0))
    additions = np.split(surplus, ends[:-1])
    return [
        np.concatenate([part[:size], extra])
        for part, size, extra in zip(shuffled, wanted, additions, strict=True)
    ]


by_class = register("partition", "by_class")(ByClass)
