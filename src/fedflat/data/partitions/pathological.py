"""A few classes for each client (McMahan et al., AISTATS 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedflat.data.partitions.dealing import Index, enough, pools_of
from fedflat.data.partitions.partition import Partition
from fedflat.errors import SettingError, number
from fedflat.registry.specs import register


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
