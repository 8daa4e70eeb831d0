"""Equal parts of a shuffled set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedflat.data.partitions.dealing import Index, enough
from fedflat.data.partitions.partition import Partition
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
