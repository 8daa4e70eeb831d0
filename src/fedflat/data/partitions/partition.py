"""What a partition is."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from fedflat.data.partitions.dealing import Index
from fedflat.language.spelling import Spelled


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
