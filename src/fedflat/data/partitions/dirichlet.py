"""Each class divided over the clients by a Dirichlet distribution.

    p_c ~ Dirichlet([alpha] * clients)      for every class c
    client k gets the share p_c[k] of the examples of class c

The draw is repeated until every client has ``min_size`` examples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedflat.data.partitions.partition import (
    Index,
    Partition,
    class_counts,
    enough,
    pools_of,
    split_classes,
)
from fedflat.errors import SettingError, flag, number
from fedflat.registry.specs import register

MAX_DRAWS = 1_000
"""Most draws before the partition is refused."""


@dataclass(frozen=True, repr=False)
class Dirichlet(Partition):
    """Shares of each class over clients ~ Dirichlet(alpha), as in NIID-Bench, PFLlib and FedLab.

    Client sizes are random.

    alpha
        Concentration of each client's share: small values concentrate a class on few clients.
    min_size
        The whole draw is repeated until every client has at least so many examples.
    balance
        A client that has at least the mean number of examples gets none of the following classes.
        NIID-Bench, PFLlib and FedLab always do this; ``balance=False`` is the default of Flower
        Datasets (``self_balancing=False``).

    >>> parts = dirichlet(0.5).assign(np.repeat([0, 1, 2], 40), 6, np.random.default_rng(0))
    >>> sum(map(len, parts)), min(map(len, parts)) >= 10
    (120, True)
    """

    alpha: float
    min_size: int = 10
    balance: bool = True

    def __post_init__(self) -> None:
        number("dirichlet", "alpha", self.alpha, low=0, open_low=True, high=1e300)
        number("dirichlet", "min_size", self.min_size, low=1, whole=True)
        flag("dirichlet", "balance", self.balance)

    def assign(
        self,
        labels: Index,
        clients: int,
        rng: np.random.Generator,
        *,
        coarse: Index | None = None,
        users: Index | None = None,
    ) -> list[Index]:
        enough("dirichlet", len(labels), clients, self.min_size)
        pools = pools_of(labels, rng)
        stock = np.array([len(pool) for pool in pools])
        largest = 0
        for _ in range(MAX_DRAWS):
            counts = class_counts(self.alpha, stock, clients, rng, balance=self.balance)
            smallest = int(counts.sum(0).min())
            if smallest >= self.min_size:
                return [np.sort(part) for part in split_classes(pools, counts)]
            largest = max(largest, smallest)
        raise SettingError(
            f"dirichlet: every client must have min_size={self.min_size} examples, but in each of "
            f"{MAX_DRAWS} draws one had at most {largest}. Use a larger alpha, fewer clients or a "
            "smaller min_size."
        )


dirichlet = register("partition", "dirichlet")(Dirichlet)
