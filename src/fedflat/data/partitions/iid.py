"""Equal parts of a shuffled set, and parts of very different sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedflat.data.partitions.partition import Index, Partition, Weights, dirichlet, enough
from fedflat.errors import choice, number
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class Iid(Partition):
    """Shuffle all examples and cut them into equal parts.

    >>> [len(part) for part in iid().assign(np.zeros(10, np.int64), 4, np.random.default_rng(0))]
    [3, 3, 2, 2]
    """

    by_label = False

    def assign(
        self,
        labels: Index,
        clients: int,
        rng: np.random.Generator,
        *,
        coarse: Index | None = None,
        users: Index | None = None,
    ) -> list[Index]:
        enough("iid", len(labels), clients)
        parts = np.array_split(rng.permutation(len(labels)), clients)
        return [np.sort(part) for part in parts]


iid = register("partition", "iid")(Iid)


@dataclass(frozen=True, repr=False)
class QuantitySkew(Partition):
    """Random sizes, independent of labels. All examples are used.

    sigma
        Spread of the sizes; 0 gives equal ones.
    kind
        ``"lognormal"``: sizes in proportion to ``LogNormal(0, sigma)``. ``"dirichlet"``: in
        proportion to ``Dirichlet([1 / sigma^2] * K)``, whose components have a standard deviation
        of about ``sigma`` means.
    min_size
        The smallest size; smaller clients get more examples at the cost of the others.
    """

    by_label = False

    sigma: float = 1.0
    kind: str = "lognormal"
    min_size: int = 10

    def __post_init__(self) -> None:
        number("quantity_skew", "sigma", self.sigma, low=0, high=100)
        choice("quantity_skew", "kind", self.kind, ["lognormal", "dirichlet"])
        number("quantity_skew", "min_size", self.min_size, low=1, whole=True)

    def assign(
        self,
        labels: Index,
        clients: int,
        rng: np.random.Generator,
        *,
        coarse: Index | None = None,
        users: Index | None = None,
    ) -> list[Index]:
        enough("quantity_skew", len(labels), clients, self.min_size)
        if self.sigma == 0:
            shares = np.full(clients, 1 / clients)
        elif self.kind == "lognormal":
            logs = self.sigma * rng.standard_normal(clients)
            shares = np.exp(logs - logs.max())
        else:
            shares = dirichlet(max(self.sigma, 1e-150) ** -2, np.ones(clients), rng)
        sizes = apportion(shares, len(labels), self.min_size)
        parts = np.split(rng.permutation(len(labels)), np.cumsum(sizes)[:-1])
        return [np.sort(part) for part in parts]


def apportion(shares: Weights, total: int, least: int) -> Index:
    """Integers with sum ``total`` in proportion to ``shares``, each at least ``least``.

    >>> apportion(np.array([0.0, 1.0, 3.0]), 100, 10).tolist()
    [10, 23, 67]
    """
    shares, low = shares / shares.max(), np.zeros(len(shares), bool)
    while True:
        rest = np.where(low, 0.0, shares)
        left = total - least * low.sum()
        sizes = np.where(low, least, rest / max(rest.sum(), np.finfo(float).tiny) * left)
        if not (sizes < least).any():
            break
        low |= sizes < least
    whole = np.floor(sizes).astype(np.int64)
    largest = np.argsort(whole - sizes, kind="stable")[: total - whole.sum()]
    whole[largest] += 1
    return whole


quantity_skew = register("partition", "quantity_skew")(QuantitySkew)
