"""The interface of partitions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from fedflat.data.partitions.dealing import Index
from fedflat.registry.specs import TextSpec


class Partition(TextSpec, ABC):
    """A frozen dataclass that assigns examples to clients."""

    by_label: ClassVar[bool] = True
    """True if it uses labels. If not, it works for examples of any kind and gets zeros as labels.
    """

    def note(self, classes_per_client: float | None = None) -> str:
        """A sentence to print beside results if the arguments differ in other libraries; else
        empty.

        ``classes_per_client`` is the mean number of classes of a client, if the data are open.
        """
        return ""

    @abstractmethod
    def assign(
        self,
        labels: Index,
        clients: int,
        rng: np.random.Generator,
        *,
        coarse: Index | None = None,
        users: Index | None = None,
    ) -> list[Index]:
        """For each client, the sorted positions of its examples in ``labels``.

        ``coarse`` has a coarse class and ``users`` an owner for each example, for partitions that
        need them.
        """
