"""Who holds which training example: label skew, in the ways of the papers.

    iid()                shuffle and cut
    lda(alpha)           a Dirichlet mixture of classes for each client (Hsu et al., arXiv:1909.06335)
    pam()                coarse, then fine classes of CIFAR-100 (Reddi et al., ICLR 2021, appendix F)
    pathological(s)      s classes for each client (McMahan et al., AISTATS 2017)

The others, which are not about labels, are in ``fedflat.data.ownership``. Where the examples cannot be dealt
out evenly, the first clients get one more: sizes differ by at most one, and no example is left over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fedflat.data.dealing import Index, dirichlet, draw, enough, even, pools_of, take
from fedflat.errors import SettingError, choice, number
from fedflat.language.spelling import Spelled, register


class Partition(Spelled, ABC):
    """A frozen dataclass that deals examples out to clients."""

    @abstractmethod
    def assign(
        self, labels: Index, clients: int, rng: np.random.Generator, *,
        coarse: Index | None = None, users: Index | None = None,
    ) -> list[Index]:
        """For each client the sorted positions of its examples in ``labels``.

        ``coarse`` has a coarse class and ``users`` an owner for each example, for the partitions that ask.
        """


@dataclass(frozen=True, repr=False)
class Iid(Partition):
    """Shuffle all examples and cut them into equal parts.

    >>> [len(part) for part in iid().assign(np.zeros(10, np.int64), 4, np.random.default_rng(0))]
    [3, 3, 2, 2]
    """

    def assign(
        self, labels: Index, clients: int, rng: np.random.Generator, *,
        coarse: Index | None = None, users: Index | None = None,
    ) -> list[Index]:
        """See `Partition.assign`."""
        enough("iid", len(labels), clients)
        parts = np.array_split(rng.permutation(len(labels)), clients)
        return [np.sort(part) for part in parts]


@dataclass(frozen=True, repr=False)
class Lda(Partition):
    """Equal sizes; the classes of each client from a Dirichlet distribution.

    Clients in order draw their labels from ``q ~ Dirichlet`` without replacement; see `draw`.

    alpha
        Concentration: 0 is one class per client, large values approach the classes' own frequencies.
    concentration
        ``"total"``: ``Dirichlet(alpha * prior)`` with the class frequencies as prior, so alpha is the sum of
        the components (Hsu et al.; the CIFAR splits of FedSAM and FedGloSS). ``"component"``:
        ``Dirichlet([alpha] * C)`` (FedDyn, FedDC, FedACG, FedFSA and most simulators).

    With alpha 0 client ``k`` (in a random order) has class ``floor(k C / K)``, and a class is dealt evenly to
    its clients: sizes are as equal as the classes are. Fewer clients than classes have whole classes each.

    >>> parts = lda(0).assign(np.repeat([0, 1], 6), 4, np.random.default_rng(0))
    >>> sorted(part.tolist() for part in parts)[0][-1] < 6, {len(part) for part in parts}
    (True, {3})
    """

    alpha: float
    concentration: str = "total"

    def reading(self, classes: int) -> str:
        """Which of the two meanings alpha has here, and what it would be in the other, as a sentence.

        >>> lda(0.5).reading(10)
        'alpha 0.5 is the sum over the 10 classes; read per class, as most simulators do, it would be 0.05'
        """
        total = self.concentration == "total"
        other = self.alpha / classes if total else self.alpha * classes
        here, there = f"the sum over the {classes} classes", "per class, as most simulators do"
        if not total:
            here, there = f"that of each of the {classes} classes", "as their sum, as lda(alpha) does by default"
        return f"alpha {self.alpha:g} is {here}; read {there}, it would be {other:g}"

    def __post_init__(self) -> None:
        number("lda", "alpha", self.alpha, low=0, high=1e300)
        choice("lda", "concentration", self.concentration, ["total", "component"])

    def assign(
        self, labels: Index, clients: int, rng: np.random.Generator, *,
        coarse: Index | None = None, users: Index | None = None,
    ) -> list[Index]:
        """See `Partition.assign`."""
        enough("lda", len(labels), clients)
        pools = pools_of(labels, rng)
        if self.alpha == 0:
            return _one_class(pools, clients, rng)
        stock = np.array([len(pool) for pool in pools])
        weights = stock / len(labels) if self.concentration == "total" else np.ones(len(pools))
        used = np.zeros_like(stock)
        parts = []
        for size in even(len(labels), clients):
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
                    f"lda: with alpha 0, {count} clients share a class of {len(pool)} examples and one would "
                    "hold nothing. Use fewer clients or alpha above 0."
                )
            parts += np.array_split(pool, count)
    return [np.sort(parts[k]) for k in rng.permutation(clients)]


@dataclass(frozen=True, repr=False)
class Pam(Partition):
    """Pachinko allocation: each client draws a coarse class, then a fine one inside it, for every example.

    Coarse classes are ``Dirichlet(coarse_alpha)``, and inside each the fine classes ``Dirichlet(fine_alpha)``
    (both per component), drawn without replacement; a fine class that has run out is left out of its coarse
    class, an empty coarse class likewise. Needs data with coarse labels; usual are 500 clients of 100 images.
    """

    coarse_alpha: float = 0.1
    fine_alpha: float = 10.0

    def __post_init__(self) -> None:
        number("pam", "coarse_alpha", self.coarse_alpha, low=0, open_low=True, high=1e300)
        number("pam", "fine_alpha", self.fine_alpha, low=0, open_low=True, high=1e300)

    def assign(
        self, labels: Index, clients: int, rng: np.random.Generator, *,
        coarse: Index | None = None, users: Index | None = None,
    ) -> list[Index]:
        """See `Partition.assign`."""
        enough("pam", len(labels), clients)
        if coarse is None:
            raise SettingError("pam: this data set has no coarse labels. Use cifar100(pam()), or lda(alpha).")
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
    """For each coarse class the places of its fine classes in ``classes``."""
    pairs = np.unique(np.stack([labels, coarse]), axis=1)
    twice = np.flatnonzero(np.diff(pairs[0]) == 0)
    if len(twice):
        fine = int(pairs[0, twice[0]])
        both = [int(c) for f, c in pairs.T if f == fine]
        raise SettingError(
            f"pam: fine class {fine} is in the coarse classes {both}. Give every fine class one coarse class."
        )
    place = np.searchsorted(classes, pairs[0])
    return [place[pairs[1] == group] for group in np.unique(pairs[1])]


@dataclass(frozen=True, repr=False)
class Pathological(Partition):
    """Exactly ``classes_per_client`` classes for each client.

    Every class is cut into ``s K / C`` equal shards (this must be a whole number), and each client takes
    ``s`` shards of distinct classes at random. Sizes are equal as far as the shards are.
    """

    classes_per_client: int

    def __post_init__(self) -> None:
        number("pathological", "classes_per_client", self.classes_per_client, low=1, whole=True)

    def assign(
        self, labels: Index, clients: int, rng: np.random.Generator, *,
        coarse: Index | None = None, users: Index | None = None,
    ) -> list[Index]:
        """See `Partition.assign`."""
        pools = pools_of(labels, rng)
        each, classes = self.classes_per_client, len(pools)
        enough("pathological", len(labels), clients, each)
        if each > classes:
            raise SettingError(f"pathological: there are {classes} classes, found {each} per client.")
        if each * clients % classes:
            raise SettingError(
                f"pathological: {each} classes for each of {clients} clients are {each * clients} shards, "
                f"which {classes} classes cannot share evenly. Choose classes_per_client and clients so that "
                f"their product is a multiple of {classes}."
            )
        shards = each * clients // classes
        smallest = min(map(len, pools))
        if smallest < shards:
            raise SettingError(
                f"pathological: every class is cut into {shards} shards, but the smallest has {smallest} "
                "examples. Use fewer clients or fewer classes per client."
            )
        cut = [np.array_split(pool, shards) for pool in pools]
        parts = []
        for chosen in _distinct(each, clients, np.full(classes, shards), rng):
            parts.append(np.sort(np.concatenate([cut[c].pop() for c in chosen])))
        return parts


def _distinct(each: int, clients: int, left: Index, rng: np.random.Generator) -> list[Index]:
    """``each`` distinct classes for every client, so that all ``left`` shards of the classes are taken.

    The rest can always be dealt out if no class has more shards than there are clients to come; so a class
    that has as many must be taken now, and the others are drawn in proportion to their shards.
    """
    chosen = []
    for to_come in range(clients, 0, -1):
        must = np.flatnonzero(left == to_come)
        weights = np.where(left < to_come, left, 0) / max(1, left[left < to_come].sum())
        free = each - len(must)
        may = rng.choice(len(left), size=free, replace=False, p=weights) if free else np.empty(0, np.int64)
        chosen.append(np.concatenate([must, may]))
        left = left - np.bincount(chosen[-1], minlength=len(left))
    return chosen


iid = register("partition", "iid")(Iid)
lda = register("partition", "lda")(Lda)
pam = register("partition", "pam")(Pam)
pathological = register("partition", "pathological")(Pathological)
