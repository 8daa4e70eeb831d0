"""Data sets whose examples have owners, who become the clients: writers, roles in plays.

    shakespeare(clients=100)
    femnist(iid(), clients=3500)

The seed selects as many owners as there are clients. Other partitions redistribute the examples of
the same owners.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedflat.core.seeds import numpy_generator
from fedflat.data.federation import Federation
from fedflat.data.named_set import FileSet
from fedflat.data.partitions.by_user import ByUser
from fedflat.data.partitions.dealing import Index
from fedflat.data.partitions.partition import Partition
from fedflat.data.raw import RawSet
from fedflat.data.splitting import federate
from fedflat.errors import SettingError


@dataclass(frozen=True, repr=False)
class NaturalSet(FileSet):
    """A set that is published with the owners of its examples."""

    partition: Partition = field(default_factory=ByUser)

    whose: ClassVar[str]
    """The plural noun for its owners."""

    @abstractmethod
    def owners(self) -> Index:
        """The ids of all owners with enough examples, in ascending order."""

    def of(self, owners: Index) -> RawSet:
        """The examples of these owners with their ids, and test examples of these owners or of
        none."""
        raw = self.raw()
        assert raw.users is not None
        users = raw.users.numpy()
        selected = np.isin(users, [*owners, -1])
        if selected.all():
            return raw
        return RawSet(
            raw.x[selected],
            raw.y[selected],
            int(selected[: raw.train].sum()),
            raw.classes,
            None,
            raw.users[selected],
            raw.domains and raw.domains.of(np.flatnonzero(selected).tolist()),
        )

    def open(self, seed: int) -> Federation:
        """The federation for this seed, unless the set has its own seed."""
        seed = seed if self.seed is None else self.seed
        raw = self.of(select_owners(self.name, self.whose, self.owners(), self.clients, seed))
        assert raw.users is not None
        return federate(
            self.to_examples(raw),
            raw.train,
            self.partition,
            self.clients,
            seed,
            split=self.split,
            pool=self.pool,
            users=raw.users.numpy(),
        )


def select_owners(name: str, whose: str, owners: Index, clients: int, seed: int) -> Index:
    """``clients`` owners selected by the seed, in ascending order; an error if there are too few.

    >>> select_owners("plays", "roles", np.array([3, 5, 9]), 3, seed=0).tolist()
    [3, 5, 9]
    """
    if len(owners) < clients:
        raise SettingError(
            f"{name}: {clients} clients need as many {whose}, found {len(owners)}. Use fewer "
            "clients."
        )
    if len(owners) == clients:
        return owners
    chosen: Index = np.sort(numpy_generator(seed, "owners").choice(owners, clients, replace=False))
    return chosen
