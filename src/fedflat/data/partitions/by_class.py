"""Clients with few classes: Dirichlet draws (FedSeq), shards (McMahan et al.), CIFAR-100's coarse classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedflat.data.partitions.partition import (
    Index,
    Partition,
    class_counts,
    dirichlet,
    draw,
    enough,
    even,
    pools_of,
    split_classes,
    take,
)
from fedflat.errors import SettingError, flag, number
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


@dataclass(frozen=True, repr=False)
class Pathological(Partition):
    """Exactly ``classes_per_client`` classes for each client.

    Every class is cut into ``s K / C`` equal shards (this must be an integer), and each client gets
    ``s`` shards of distinct random classes. Sizes are equal as far as the shards are.
    """

    classes_per_client: int

    def __post_init__(self) -> None:
        number("pathological", "classes_per_client", self.classes_per_client, low=1, whole=True)

    def assign(
        self,
        labels: Index,
        clients: int,
        rng: np.random.Generator,
        *,
        coarse: Index | None = None,
        users: Index | None = None,
    ) -> list[Index]:
        pools = pools_of(labels, rng)
        each, classes = self.classes_per_client, len(pools)
        enough("pathological", len(labels), clients, each)
        if each > classes:
            raise SettingError(
                f"pathological: there are {classes} classes, found {each} per client."
            )
        if each * clients % classes:
            raise SettingError(
                f"pathological: {each} classes for each of {clients} clients are {each * clients} "
                f"shards, which {classes} classes cannot share evenly. Choose classes_per_client "
                f"and clients so that their product is a multiple of {classes}."
            )
        shards = each * clients // classes
        smallest = min(map(len, pools))
        if smallest < shards:
            raise SettingError(
                f"pathological: every class is cut into {shards} shards, but the smallest has "
                f"{smallest} examples. Use fewer clients or fewer classes per client."
            )
        cut = [np.array_split(pool, shards) for pool in pools]
        parts = []
        for chosen in _distinct(each, clients, np.full(classes, shards), rng):
            parts.append(np.sort(np.concatenate([cut[c].pop() for c in chosen])))
        return parts


def _distinct(each: int, clients: int, left: Index, rng: np.random.Generator) -> list[Index]:
    """``each`` distinct classes for every client, so that all ``left`` shards are used.

    This is possible as long as no class has more shards than there are clients left. So a class
    with exactly as many must be used now; the others are drawn in proportion to their shards.
    """
    chosen = []
    for to_come in range(clients, 0, -1):
        must = np.flatnonzero(left == to_come)
        weights = np.where(left < to_come, left, 0) / max(1, left[left < to_come].sum())
        free = each - len(must)
        may = (
            rng.choice(len(left), size=free, replace=False, p=weights)
            if free
            else np.empty(0, np.int64)
        )
        chosen.append(np.concatenate([must, may]))
        left = left - np.bincount(chosen[-1], minlength=len(left))
    return chosen


pathological = register("partition", "pathological")(Pathological)


@dataclass(frozen=True, repr=False)
class Pam(Partition):
    """Pachinko allocation: each example has a random coarse class, then a fine class within it.

    Each client has its own distributions: coarse classes ``Dirichlet(coarse_alpha)``, and within
    each the fine classes ``Dirichlet(fine_alpha)`` (both per component), drawn without replacement.
    A fine class that has run out is removed from its coarse class, and so is an empty coarse class.
    Needs data with coarse labels; usual are 500 clients of 100 images.
    """

    coarse_alpha: float = 0.1
    fine_alpha: float = 10.0

    def __post_init__(self) -> None:
        number("pam", "coarse_alpha", self.coarse_alpha, low=0, open_low=True, high=1e300)
        number("pam", "fine_alpha", self.fine_alpha, low=0, open_low=True, high=1e300)

    def assign(
        self,
        labels: Index,
        clients: int,
        rng: np.random.Generator,
        *,
        coarse: Index | None = None,
        users: Index | None = None,
    ) -> list[Index]:
        enough("pam", len(labels), clients)
        if coarse is None:
            raise SettingError(
                "pam: this data set has no coarse labels. Use cifar100(pam()), or lda(alpha)."
            )
        pools = pools_of(labels, rng)
        stock = np.array([len(pool) for pool in pools])
        groups = _groups(labels, coarse, [int(labels[pool[0]]) for pool in pools])
        used = np.zeros_like(stock)
        parts = []
        for size in even(len(labels), clients):
            left = stock - used
            q = dirichlet(self.coarse_alpha, np.ones(len(groups)), rng)
            among = draw(q, np.array([left[fine].sum() for fine in groups]), int(size), rng)
            counts = np.zeros_like(stock)
            for fine, count in zip(groups, among, strict=True):
                if count:
                    inner = dirichlet(self.fine_alpha, np.ones(len(fine)), rng)
                    counts[fine] = draw(inner, left[fine], int(count), rng)
            parts.append(take(pools, used, counts))
        return parts


def _groups(labels: Index, coarse: Index, classes: list[int]) -> list[Index]:
    """For each coarse class, the positions of its fine classes in ``classes``."""
    pairs = np.unique(np.stack([labels, coarse]), axis=1)
    twice = np.flatnonzero(np.diff(pairs[0]) == 0)
    if len(twice):
        fine = int(pairs[0, twice[0]])
        both = [int(c) for f, c in pairs.T if f == fine]
        raise SettingError(
            f"pam: fine class {fine} is in the coarse classes {both}. Give every fine class one "
            "coarse class."
        )
    place = np.searchsorted(classes, pairs[0])
    return [place[pairs[1] == group] for group in np.unique(pairs[1])]


pam = register("partition", "pam")(Pam)
