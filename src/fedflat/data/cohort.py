"""The data of several clients by columns: a stack needs all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from torch import Tensor

from fedflat.data.examples import AnyExamples, ClientData


@dataclass(frozen=True)
class CohortData(Sequence[ClientData]):
    """The data of clients that hold equally many examples of one set, and no test examples."""

    examples: AnyExamples
    rows: Tensor
    """The indices of each client's examples, a row per client."""

    def __len__(self) -> int:
        return self.rows.shape[0]

    @overload
    def __getitem__(self, place: int) -> ClientData: ...

    @overload
    def __getitem__(self, place: slice) -> CohortData: ...

    def __getitem__(self, place: int | slice) -> ClientData | CohortData:
        if isinstance(place, slice):
            return CohortData(self.examples, self.rows[place])
        if not -len(self) <= place < len(self):
            raise IndexError(f"there are {len(self)} clients, found {place}.")
        return ClientData(self.examples, self.rows[place])
