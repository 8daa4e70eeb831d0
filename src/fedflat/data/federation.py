"""A federation: the only way to reach examples. Clients, what each holds, and the test set.

`PartitionedFederation` holds the examples of everybody and deals them out by index; `OnDemand`
makes a client's examples when they are asked for, so that a million clients cost no more than a
thousand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fedflat.data.batch import each
from fedflat.data.domains import Domain
from fedflat.data.examples import AnyExamples, ClientData, Examples
from fedflat.data.skew import Skew
from fedflat.errors import SettingError
from fedflat.registry.specs import TextSpec

EVERYBODY = 10_000
"""The most clients made on demand that are made all at once, for what needs all of them."""
LOOKED_AT = 1_000
"""The most clients made on demand that are looked at to say how unequal they are."""


class DataSpec(TextSpec, ABC):
    """A frozen dataclass that says which data set, cut in which way; ``open`` reads it."""

    usual_task: ClassVar[str] = "classification()"
    """What is learnt from it if nothing is said."""
    usual_model: ClassVar[str | None] = None
    """The model for those who name none; None: that of the task."""
    origin: ClassVar[str] = ""
    """Where it comes from, if not from files."""

    @abstractmethod
    def open(self, seed: int) -> Federation:
        """The federation for this seed: the same text and seed give the same clients."""

    def class_names(self) -> tuple[str, ...]:
        """What its classes are called, in their order; none if they go by their numbers."""
        return ()


class Federation(ABC):
    """Clients by number, what each of them holds, and examples to test on."""

    test: ClientData
    held_out: Sequence[Tensor] | None = None
    """Each client's own part to test on, if the data were split inside the clients."""
    more: Mapping[str, ClientData] = {}
    """Further test sets by name: other domains, clients that never train, a gallery."""
    here: ClassVar[bool] = True
    """Whether `data` can be asked for in the server's process; if not, only those who visit clients
    open them."""

    @property
    def tests(self) -> dict[str, ClientData]:
        """All test sets by name; the first is the main one, whose scores the run reports."""
        return {"test": self.test, **self.more}

    def domain(self, client: int) -> Domain:
        """The domain that all of a client's examples are of; empty if there are several, or none is
        known."""
        domains = self.data(client).domains
        return domains.only if domains else ()

    @property
    @abstractmethod
    def population(self) -> int:
        """The number of clients."""

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.test.examples.classes

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return self.test.examples.shape

    @abstractmethod
    def data(self, client: int) -> ClientData:
        """What ``client`` trains on, and what it keeps for testing."""

    def own_test(self, client: int) -> ClientData | None:
        """What ``client`` keeps for testing, if the data were split inside the clients."""
        return self.data(client).own_test

    def size(self, client: int) -> int:
        """How many examples ``client`` trains on."""
        return len(self.data(client))

    @abstractmethod
    def sizes(self) -> Sequence[int]:
        """How many examples each client trains on."""

    @abstractmethod
    def skew(self) -> Skew:
        """How unequal the clients' training examples are."""

    @abstractmethod
    def to(self, device: str) -> Federation:
        """The same federation with its examples on another device."""

    @abstractmethod
    def pooled(self) -> Federation:
        """The same examples in one place: a single client who holds everything."""


@dataclass(frozen=True)
class PartitionedFederation(Federation):
    """A federation by index: who holds which of the training examples, and perhaps keeps which for
    testing."""

    train: AnyExamples
    test: ClientData
    parts: Sequence[Tensor]
    held_out: Sequence[Tensor] | None = None
    more: Mapping[str, ClientData] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for client in range(len(self.parts)):
            if len(self.parts[client]) == 0:
                raise SettingError(
                    f"client {client} of {len(self.parts)} holds no example. Use fewer clients, a milder "
                    "partition, or a larger data set."
                )

    @property
    def population(self) -> int:
        return len(self.parts)

    def size(self, client: int) -> int:
        return len(self.parts[client])

    def sizes(self) -> Sequence[int]:
        """See `Federation.sizes`; counted once."""
        return self._sizes

    @cached_property
    def _sizes(self) -> list[int]:
        return [len(part) for part in self.parts]

    def data(self, client: int) -> ClientData:
        return ClientData(
            self.train, self.parts[client], None if self.held_out is None else self.held_out[client]
        )

    def skew(self) -> Skew:
        counts = [
            self.data(client).counts(self.classes).numpy() for client in range(self.population)
        ]
        return Skew.of_counts(np.stack(counts))

    def to(self, device: str) -> PartitionedFederation:
        train, test = self.train.to(device), self.test.to(device)
        held_out = self.held_out and [part.to(device) for part in self.held_out]
        more = {name: data.to(device) for name, data in self.more.items()}
        parts = [part.to(device) for part in self.parts]
        return replace(self, train=train, test=test, parts=parts, held_out=held_out, more=more)

    def pooled(self) -> PartitionedFederation:
        return PartitionedFederation(
            self.train, self.test, [torch.cat(list(self.parts))], more=self.more
        )


@dataclass(frozen=True)
class OnDemand(Federation):
    """A federation whose clients are made when they are asked for. Nothing grows with their number.

    What needs every client is done for at most `EVERYBODY` of them, and refused for more; figures
    of how unequal they are come from `LOOKED_AT` of them.
    """

    clients: int
    make: Callable[[int], AnyExamples]
    """The training examples of a client, the same whenever it is asked for."""
    test: ClientData
    device: str = "cpu"
    more: Mapping[str, ClientData] = field(default_factory=dict)
    whence: Callable[[int], Domain] | None = None
    """The domain of a client, without making its examples; if nothing is said they are made and
    asked."""

    @property
    def population(self) -> int:
        return self.clients

    def domain(self, client: int) -> Domain:
        return super().domain(client) if self.whence is None else self.whence(client)

    def data(self, client: int) -> ClientData:
        examples = self.make(client)
        if len(examples) == 0:
            raise SettingError(
                f"client {client} of {self.clients} holds no example. Every client must have one."
            )
        data = ClientData(examples, torch.arange(len(examples)))
        return data if self.device == "cpu" else data.to(self.device)

    def sizes(self) -> Sequence[int]:
        """See `Federation.sizes`; counted once."""
        return self._sizes

    @cached_property
    def _sizes(self) -> list[int]:
        return [
            len(self.data(client))
            for client in self._everybody("to know how many examples each client holds")
        ]

    def skew(self) -> Skew:
        count = min(self.clients, LOOKED_AT)
        chosen = (self.data(place * self.clients // count) for place in range(count))
        return Skew.of_counts(
            np.stack([data.counts(self.classes).numpy() for data in chosen]), self.clients
        )

    def to(self, device: str) -> OnDemand:
        more = {name: data.to(device) for name, data in self.more.items()}
        return replace(self, test=self.test.to(device), device=device, more=more)

    def pooled(self) -> PartitionedFederation:
        made = [self.make(client) for client in self._everybody("to train in one place")]
        train = joined([one for one in made if isinstance(one, Examples)])
        everybody = [torch.arange(len(train), device=self.device)]
        return PartitionedFederation(train.to(self.device), self.test, everybody, more=self.more)

    def _everybody(self, why: str) -> range:
        if self.clients > EVERYBODY:
            raise SettingError(
                f"{why}, all {self.clients} clients would have to be made, and they are made when asked for. Use at "
                f"most {EVERYBODY} clients for it."
            )
        return range(self.clients)


def joined(sets: Sequence[Examples]) -> Examples:
    """Sets of the same kind, one after the other."""
    inputs, targets = (
        each(lambda *parts: torch.cat(parts), *some)
        for some in ([s.inputs for s in sets], [s.targets for s in sets])
    )
    domains = sets[0].domains
    for one in sets[1:]:
        domains = domains and one.domains and domains + one.domains
    return replace(sets[0], inputs=inputs, targets=targets, domains=domains)
