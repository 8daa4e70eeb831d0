"""Coarse, then fine classes of CIFAR-100 (Reddi et al., ICLR 2021, appendix F)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedflat.data.partitions.dealing import Index, dirichlet, draw, enough, even, pools_of, take
from fedflat.data.partitions.partition import Partition
from fedflat.errors import SettingError, number
from fedflat.registry.specs import register


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
