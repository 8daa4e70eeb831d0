"""A federation: the only way to reach examples. Clients, what each holds, and the test set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedflat.data.examples import ClientData, Examples
from fedflat.data.skew import Skew
from fedflat.errors import SettingError
from fedflat.spelling import Spelled


class DataSpec(Spelled):
    """A frozen dataclass that says which data set, cut in which way; ``open`` reads it."""

    stored: ClassVar[bool] = True
    """Whether it is a data set of its own, not a change of another."""

    def open(self, seed: int) -> Federation:
        """The federation for this seed: the same text and seed give the same clients."""
        raise NotImplementedError


@dataclass(frozen=True)
class Federation:
    """Who holds which training examples; examples to test on; perhaps each client's own held-out part."""

    train: Examples
    test: ClientData
    parts: Sequence[Tensor]
    held_out: Sequence[Tensor] | None = None

    def __post_init__(self) -> None:
        for client in range(len(self.parts)):
            if len(self.parts[client]) == 0:
                raise SettingError(
                    f"client {client} of {len(self.parts)} holds no example. Use fewer clients, a milder "
                    "partition, or a larger data set."
                )

    @property
    def population(self) -> int:
        """The number of clients."""
        return len(self.parts)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.train.classes

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return self.train.shape

    def sizes(self) -> list[int]:
        """How many examples each client trains on."""
        return [len(part) for part in self.parts]

    def data(self, client: int) -> ClientData:
        """What ``client`` trains on, and what it keeps for testing."""
        return ClientData(self.train, self.parts[client], None if self.held_out is None else self.held_out[client])

    def own_test(self, client: int) -> ClientData | None:
        """What ``client`` keeps for testing, if the data were split inside the clients."""
        return self.data(client).own_test

    def skew(self) -> Skew:
        """How unequal the clients' training examples are."""
        return Skew.of(self.train.y.cpu().numpy(), [part.cpu().numpy() for part in self.parts], self.classes)

    def to(self, device: str) -> Federation:
        """The same federation with its examples on another device."""
        train, test = self.train.to(device), self.test.to(device)
        held_out = self.held_out and [part.to(device) for part in self.held_out]
        return Federation(train, test, [part.to(device) for part in self.parts], held_out)

    def pooled(self) -> Federation:
        """The same examples in one place: a single client who holds everything."""
        return Federation(self.train, self.test, [torch.cat(list(self.parts))])
