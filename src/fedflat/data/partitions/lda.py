"""A Dirichlet mixture of classes for each client (Hsu et al., arXiv:1909.06335)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fedflat.data.partitions.partition import (
    Index,
    Partition,
    dirichlet,
    draw,
    draw_in_turns,
    enough,
    even,
    pools_of,
    take,
)
from fedflat.errors import SettingError, choice, flag, number
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class Lda(Partition):
    """Clients of equal size; each client's classes ~ Dirichlet(alpha * frequencies).

    Clients in order draw all their labels from ``q ~ Dirichlet`` without replacement; see `draw`.
    So the last ones get what the others have left, whatever their ``q``.

    alpha
        Concentration: 0 is one class per client, large values approach the class frequencies.
    concentration
        ``"total"``: ``Dirichlet(alpha * prior)`` with the class frequencies as prior, so alpha is
        the sum of the components (Hsu et al.; the CIFAR splits of FedSAM and FedGloSS).
        ``"component"``: ``Dirichlet([alpha] * C)`` (FedDyn, FedDC, FedACG and FedFSA). NIID-Bench,
        PFLlib, FedLab and Flower Datasets draw over clients instead of classes: that is
        ``dirichlet(alpha)``.
    in_turns
        Clients draw one label at a time, in a random order (`draw_in_turns`; the code of FedDyn,
        MAN and FedFSA). Then all of them get some of the last labels, and they differ less.

    With alpha 0 client ``k`` (in a random order) has class ``floor(k C / K)``, and a class is
    divided evenly among its clients. Fewer clients than classes have whole classes each.

    >>> parts = lda(0).assign(np.repeat([0, 1], 6), 4, np.random.default_rng(0))
    >>> sorted(part.tolist() for part in parts)[0][-1] < 6, {len(part) for part in parts}
    (True, {3})
    """

    alpha: float
    concentration: str = "total"
    in_turns: bool = False

    def alpha_meaning(self, classes: int) -> str:
        """The meaning of alpha in use, and how to write the other one.

        >>> print(lda(0.5).alpha_meaning(10).partition(" (")[0])
        alpha 0.5 is the total over the 10 classes, 0.05 each on average
        """
        if self.concentration == "total":
            here = f"the total over the {classes} classes, {self.alpha / classes:g} each on average"
            return (
                f"alpha {self.alpha:g} is {here} (each with concentration='component'). "
                f"{self._elsewhere()}"
            )
        here = f"that of each of the {classes} classes, {self.alpha * classes:g} in total"
        return f"alpha {self.alpha:g} is {here} (the total with concentration='total')"

    def note(self, classes_per_client: float | None = None) -> str:
        """See `Partition.note`.

        >>> print(lda(0.1).note(1.48).partition(" (")[0])
        lda(0.1): alpha is the total concentration, divided among the classes
        """
        if self.alpha == 0 or self.concentration != "total":
            return ""
        mean = (
            ""
            if classes_per_client is None
            else f" ({classes_per_client:.1f} classes a client on average)"
        )
        return (
            f"{self!r}: alpha is the total concentration, divided among the classes{mean}. "
            f"{self._elsewhere()}"
        )

    def _elsewhere(self) -> str:
        same, flower = f"dirichlet({self.alpha!r})", f"dirichlet({self.alpha!r}, balance=False)"
        return f"NIID-Bench, PFLlib and FedLab draw {same}, Flower Datasets {flower}."

    def __post_init__(self) -> None:
        number("lda", "alpha", self.alpha, low=0, high=1e300)
        choice("lda", "concentration", self.concentration, ["total", "component"])
        flag("lda", "in_turns", self.in_turns)

    def assign(
        self,
        labels: Index,
        clients: int,
        rng: np.random.Generator,
        *,
        coarse: Index | None = None,
        users: Index | None = None,
    ) -> list[Index]:
        enough("lda", len(labels), clients)
        pools = pools_of(labels, rng)
        if self.alpha == 0:
            return _one_class(pools, clients, rng)
        stock = np.array([len(pool) for pool in pools])
        weights = stock / len(labels) if self.concentration == "total" else np.ones(len(pools))
        sizes = even(len(labels), clients)
        used = np.zeros_like(stock)
        if self.in_turns:
            mixtures = np.stack([dirichlet(self.alpha, weights, rng) for _ in sizes])
            return [
                take(pools, used, counts) for counts in draw_in_turns(mixtures, stock, sizes, rng)
            ]
        parts = []
        for size in sizes:
            q = dirichlet(self.alpha, weights, rng)
            parts.append(take(pools, used, draw(q, stock - used, int(size), rng)))
        return parts


def _one_class(pools: list[Index], clients: int, rng: np.random.Generator) -> list[Index]:
    classes = len(pools)
    if clients < classes:
        bounds = np.arange(clients + 1) * classes // clients
        parts = [np.concatenate(pools[low:high]) for low, high in pairwise(bounds)]
    else:
        owners = np.bincount(np.arange(clients) * classes // clients, minlength=classes)
        parts = []
        for pool, count in zip(pools, owners, strict=True):
            if len(pool) < count:
                raise SettingError(
                    f"lda: with alpha 0, {count} clients share a class of {len(pool)} examples "
                    "and one would hold nothing. Use fewer clients or alpha above 0."
                )
            parts += np.array_split(pool, count)
    return [np.sort(parts[k]) for k in rng.permutation(clients)]


lda = register("partition", "lda")(Lda)
