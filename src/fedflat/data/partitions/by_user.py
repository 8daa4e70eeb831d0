"""One client for each owner of examples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedflat.data.partitions.dealing import Index
from fedflat.data.partitions.partition import Partition
from fedflat.errors import SettingError
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class ByUser(Partition):
    """One client for each owner of examples, in the order of their ids; ``clients`` is ignored."""

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
        if users is None:
            raise SettingError(
                "by_user: the examples of this data set have no owners. Use another partition, or "
                "tensors(..., users=ids)."
            )
        if len(users) != len(labels):
            raise SettingError(
                f"by_user: there must be an owner for each of the {len(labels)} examples, found "
                f"{len(users)}."
            )
        order = np.argsort(users, kind="stable")
        _, first = np.unique(users[order], return_index=True)
        return np.split(order, first[1:])


by_user = register("partition", "by_user")(ByUser)
