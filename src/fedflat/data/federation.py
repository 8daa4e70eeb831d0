"""Federations: clients, the examples that each holds, and test sets.

`PartitionedFederation` holds all examples and assigns them to clients by index. `OnDemand` makes a
client's examples when they are needed, so that a million clients cost no more than a thousand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from fedflat.data.cohort import CohortData
from fedflat.data.domains import Domain
from fedflat.data.examples import AnyExamples, ClientData, Examples, each
from fedflat.data.info import NAMED, DataInfo
from fedflat.data.partitions.partition import Partition
from fedflat.data.skew import Skew
from fedflat.errors import SettingError
from fedflat.registry.specs import TextSpec, name_of, parse

LARGEST_POPULATION = 10_000
"""Most clients of an `OnDemand` federation that are made at once, where all are needed."""
LARGEST_POOL = 25_000_000
"""Most examples of an `OnDemand` federation that are held at once, where sizes are known."""
LOOKED_AT = 1_000
"""Most clients of an `OnDemand` federation that are made to compute statistics."""


class DataSpec(TextSpec, ABC):
    """A frozen dataclass that names a data set and its partition; ``open`` reads it."""

    usual_task: ClassVar[str] = "classification()"
    """The default task."""
    usual_model: ClassVar[str | None] = None
    """The default model; None means that of the task."""
    origin: ClassVar[str] = ""
    """The origin of the data, if there are no files."""

    @abstractmethod
    def open(self, seed: int) -> Federation:
        """The federation for this seed. The same text and seed give the same clients."""

    def class_names(self) -> tuple[str, ...]:
        """The names of the classes in order; empty if they have only numbers."""
        return ()

    def client_names(self) -> tuple[str, ...]:
        """The names of the clients in order; empty if they have only numbers."""
        return ()

    def column_names(self) -> tuple[str, ...]:
        """The names of the input columns of a table, in order; empty if inputs are no columns."""
        return ()

    def show(self, seed: int = 0) -> Any:
        """What the data set holds and how its clients differ: it prints as text, a notebook shows
        the picture of clients and classes, and ``save(file)`` writes the picture.

        seed
            Seed of the partition.
        """
        return import_module("fedflat").show_data(self, seed)

    def partitions(self) -> Iterator[Partition]:
        """The partitions of the data set and of the sets that it is derived from."""
        for value in vars(self).values():
            if isinstance(value, Partition):
                yield value
            elif isinstance(value, DataSpec):
                yield from value.partitions()

    def info(self) -> DataInfo:
        """What reports say about the data set."""
        inner = self._trained_on()
        rule, clients = getattr(inner, "partition", None), getattr(inner, "clients", None)
        parts = [
            "the data set's own" if rule is None else repr(rule),
            f"{clients} clients" if clients else "",
        ]
        segments = self.usual_task.startswith("segmentation")
        return DataInfo(
            name_of(type(self)),
            ", ".join(filter(None, parts)),
            repr(parse(self.usual_task, "task")),
            self.class_names() if segments else None,
            tuple(dict.fromkeys(filter(None, (one.note() for one in self.partitions())))),
        )

    def full_info(self) -> DataInfo:
        """`info` with the names of classes, clients and columns, which may be read from files."""
        info, clients = self.info(), self.client_names()
        known = clients and len(clients) <= NAMED
        return replace(
            info,
            class_names=self.class_names(),
            client_names=clients if known else (),
            column_names=self.column_names(),
        )

    def _trained_on(self) -> DataSpec:
        """The data that clients train on: of a derived set, the first set that it is made of."""
        inner = next((value for value in vars(self).values() if isinstance(value, DataSpec)), None)
        return self if inner is None else inner._trained_on()


class Federation(ABC):
    """Clients by number, the examples that each holds, and test examples."""

    test: ClientData
    held_out: Sequence[Tensor] | None = None
    """Indices of each client's own test examples, if the data were split within clients."""
    more: Mapping[str, ClientData] = {}
    """Further test sets by name: other domains, clients that never train, a gallery."""
    remark: str = ""
    """A sentence that users should read before the first round; empty if there is none."""
    client_names: Sequence[str] = ()
    """The names of the clients in order; empty if they have only numbers."""
    here: ClassVar[bool] = True
    """True if `data` can be called in the server's process.

    If not, only executors open clients' data.
    """

    def online(self, round: int) -> Sequence[int] | None:
        """The clients that can be asked in a round; None if all can."""
        return None

    @property
    def tests(self) -> dict[str, ClientData]:
        """All test sets by name. The first is the main one, whose scores the run reports."""
        return {"test": self.test, **self.more}

    def domain(self, client: int) -> Domain:
        """The domain that all of a client's examples share; empty if several or unknown."""
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
        """The examples of ``client`` for training, and its own test examples."""

    def cohort(self, clients: Sequence[int]) -> Sequence[ClientData]:
        """The `data` of several clients."""
        return list(map(self.data, clients))

    def own_test(self, client: int) -> ClientData | None:
        """The own test examples of ``client``, if the data were split within clients."""
        return self.data(client).own_test

    def size(self, client: int) -> int:
        """The number of training examples of ``client``."""
        return len(self.data(client))

    @abstractmethod
    def sizes(self) -> Sequence[int]:
        """The number of training examples of each client."""

    @abstractmethod
    def skew(self) -> Skew:
        """Statistics of how unequal the clients' training examples are."""

    @abstractmethod
    def to(self, device: str) -> Federation:
        """The same federation with its examples on another device."""

    @abstractmethod
    def pooled(self) -> Federation:
        """The same examples at a single client."""


@dataclass(frozen=True)
class PartitionedFederation(Federation):
    """A federation that assigns training and test examples to clients by index.

    train
        The training examples of all clients.
    parts
        The indices of each client's examples in ``train``.
    """

    train: AnyExamples
    test: ClientData
    parts: Sequence[Tensor]
    held_out: Sequence[Tensor] | None = None
    more: Mapping[str, ClientData] = field(default_factory=dict)
    remark: str = ""
    client_names: Sequence[str] = ()

    def __post_init__(self) -> None:
        for client in range(len(self.parts)):
            if len(self.parts[client]) == 0:
                raise SettingError(
                    f"client {client} of {len(self.parts)} holds no example. Use fewer clients, a "
                    "milder partition, or a larger data set."
                )

    @property
    def population(self) -> int:
        return len(self.parts)

    def size(self, client: int) -> int:
        return len(self.parts[client])

    def sizes(self) -> Sequence[int]:
        """See `Federation.sizes`; cached."""
        return self._sizes

    @cached_property
    def _sizes(self) -> list[int]:
        return [len(part) for part in self.parts]

    def data(self, client: int) -> ClientData:
        return ClientData(
            self.train, self.parts[client], None if self.held_out is None else self.held_out[client]
        )

    def cohort(self, clients: Sequence[int]) -> Sequence[ClientData]:
        if self._table is None:
            return super().cohort(clients)
        rows = torch.from_numpy(np.array(clients)).to(self._table.device)
        return CohortData(self.train, self._table.index_select(0, rows))

    @cached_property
    def _table(self) -> Tensor | None:
        """The indices of all clients as rows, if they hold equally many and no test examples."""
        if self.held_out is not None or len(set(self._sizes)) > 1:
            return None
        return torch.stack(list(self.parts))

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
    """A federation whose clients are made on demand. Its cost does not grow with their number.

    Operations that make every client are refused for more than `LARGEST_POPULATION` clients, and
    if sizes are known, for more than `LARGEST_POOL` examples. Statistics use at most `LOOKED_AT`
    clients.

    device
        The device of the examples.
    """

    clients: int
    make: Callable[[int], AnyExamples]
    """Returns the training examples of a client, always the same."""
    test: ClientData
    device: str = "cpu"
    more: Mapping[str, ClientData] = field(default_factory=dict)
    domain_of: Callable[[int], Domain] | None = None
    """Returns the domain of a client without making its examples. None: the examples are made."""
    known_sizes: Sequence[int] | None = None
    """The number of examples of each client. If it is None, the clients are made to count them."""

    @property
    def population(self) -> int:
        return self.clients

    def domain(self, client: int) -> Domain:
        return super().domain(client) if self.domain_of is None else self.domain_of(client)

    def data(self, client: int) -> ClientData:
        examples = self.make(client)
        if len(examples) == 0:
            raise SettingError(
                f"client {client} of {self.clients} holds no example. Every client must have one."
            )
        data = ClientData(examples, torch.arange(len(examples)))
        return data if self.device == "cpu" else data.to(self.device)

    def sizes(self) -> Sequence[int]:
        """See `Federation.sizes`; cached."""
        return self._sizes

    @cached_property
    def _sizes(self) -> list[int]:
        if self.known_sizes is not None:
            return list(self.known_sizes)
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
        examples = [self.make(client) for client in self._everybody("to train in one place")]
        train = concatenate([part for part in examples if isinstance(part, Examples)])
        everything = [torch.arange(len(train), device=self.device)]
        return PartitionedFederation(train.to(self.device), self.test, everything, more=self.more)

    def _everybody(self, why: str) -> range:
        if self.known_sizes is not None:
            count = sum(self.known_sizes)
            if count > LARGEST_POOL:
                raise SettingError(
                    f"{why}, {count} examples of {self.clients} clients would be held in memory. "
                    f"Use fewer clients, with at most {LARGEST_POOL} examples."
                )
        elif self.clients > LARGEST_POPULATION:
            raise SettingError(
                f"{why}, all {self.clients} clients would have to be made, and they are made when "
                f"needed. Use at most {LARGEST_POPULATION} clients for it."
            )
        return range(self.clients)


def concatenate(sets: Sequence[Examples]) -> Examples:
    """Concatenate sets of the same kind."""
    inputs, targets = (
        each(lambda *parts: torch.cat(parts), *tensors)
        for tensors in ([s.inputs for s in sets], [s.targets for s in sets])
    )
    domains = sets[0].domains
    for other in sets[1:]:
        domains = domains and other.domains and domains + other.domains
    return replace(sets[0], inputs=inputs, targets=targets, domains=domains)


def owners_of_tests(fed: Federation) -> Tensor | None:
    """The client of each example of the main test set; None if an example belongs to no client.

    With ``pool=True`` the main test set is what the clients hold out.
    """
    if fed.held_out is None or len(fed.test) != sum(map(len, fed.held_out)):
        return None
    if not torch.equal(fed.test.index.cpu(), torch.cat(list(fed.held_out)).cpu()):
        return None
    sizes = torch.tensor([len(part) for part in fed.held_out])
    return torch.arange(len(sizes)).repeat_interleave(sizes)
