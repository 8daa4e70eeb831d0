"""Requests from a slot of the server to the clients of a round.

A request is a broadcast, the state that the client keeps, and an id that is unique in the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import overload

from fedflat.client.training import ClientJob, Request
from fedflat.core.failures import ClientFailure
from fedflat.core.messages import Broadcast
from fedflat.execution.client_states import ClientStates
from fedflat.server.client_registry import ClientRegistry
from fedflat.topologies.population import Chain

SHADOW = "shadow:"
"""Prefix of the keys under which averages keep their own state of a client."""

RequestKey = tuple[int, int]
"""A client, and how often it was asked before in the same exchange."""
NoReply = tuple[str, str]
"""The reason (see `ClientFailure`) and details."""
Unanswered = Mapping[RequestKey, NoReply]
"""Requests that are known beforehand to have no answer."""


@dataclass(frozen=True)
class RequestBatch(Sequence[Request]):
    """One request to each client of a cohort; the client's state is read when it is accessed."""

    broadcasts: Mapping[int, Broadcast]
    """By client. Clients outside the cohort are not asked."""
    cohort: Sequence[int]
    clients: ClientStates
    exchange: int = 1
    """Number of the exchange within the round."""
    missing_model: Set[int] = frozenset()
    """Clients that must be sent a model that the others still have."""
    download_counted: bool = False
    """True if the ledger has the download already (replies to earlier broadcasts)."""

    def __len__(self) -> int:
        return len(self.cohort)

    def __iter__(self) -> Iterator[Request]:
        return map(self.to, self.cohort)

    @overload
    def __getitem__(self, place: int) -> Request: ...

    @overload
    def __getitem__(self, place: slice) -> RequestBatch: ...

    def __getitem__(self, place: int | slice) -> Request | RequestBatch:
        if isinstance(place, slice):
            return replace(self, cohort=self.cohort[place])
        return self.to(self.cohort[place])

    def to(self, client: int) -> Request:
        """The request to one client, with the state of its own pieces."""
        state = self.clients.state(client)
        own = {key: kept for key, kept in state.items() if not key.startswith(SHADOW)}
        return Request(client, self.broadcast_to(client), own, self.id(client))

    def broadcast_to(self, client: int) -> Broadcast:
        """The broadcast to one client, with the model if this client lacks it."""
        broadcast = self.broadcasts[client]
        return broadcast.after(None) if client in self.missing_model else broadcast

    def id(self, client: int) -> str:
        """An id that no other request of the run has."""
        broadcast = self.broadcasts[client]
        again = f"/{broadcast.repetition}" if broadcast.repetition else ""
        return f"{broadcast.round}/{self.exchange}/{client}{again}"

    def failures(self, unanswered: Unanswered) -> Iterator[ClientFailure]:
        """Failures of the clients that are known not to answer."""
        for client, broadcast in self.broadcasts.items():
            found = unanswered.get((client, broadcast.repetition))
            if found is not None:
                yield ClientFailure(client, self.id(client), *found)

    @property
    def ids(self) -> dict[str, int]:
        """The client of each request, by id."""
        return {self.id(client): client for client in self.cohort}


@dataclass
class SlotExchange:
    """What one slot of the server has sent in a round, and to whom."""

    slot: str
    chains: Sequence[Chain]
    """Chains of clients that train; one client each in a star."""
    last: Broadcast | None = None
    """The last broadcast."""
    count: int = 0
    """Exchanges so far."""
    missing_model: set[int] = field(default_factory=set)
    """Clients that did not answer and may lack the last broadcast."""

    @property
    def cohort(self) -> list[int]:
        """All clients, each once."""
        return list(dict.fromkeys(client for chain in self.chains for client in chain))

    def chains_for(self, broadcast: Broadcast) -> Sequence[Chain]:
        """The chains for training; for other instructions each client is asked on its own."""
        if broadcast.instruction.trains:
            return self.chains
        return [(client,) for client in self.cohort]

    def requests(
        self, clients: ClientStates, broadcasts: Mapping[int, Broadcast], cohort: Sequence[int]
    ) -> RequestBatch:
        """Requests of the current exchange to a cohort."""
        return RequestBatch(broadcasts, cohort, clients, self.count, frozenset(self.missing_model))


def with_preceding(
    broadcast: Broadcast, cohort: Sequence[int], job: ClientJob, registry: ClientRegistry
) -> Broadcast:
    """The broadcast, with what precedes each client in the cohort if a piece needs that."""
    if not any(piece.needs_cohort_order for piece in job.pieces):
        return broadcast
    preceding: dict[int, tuple[int, float]] = {}
    batches = 0.0
    for place, client in enumerate(cohort):
        preceding[client] = place, batches
        examples = registry.size(client)
        steps = job.local.planned_steps(broadcast.round, client, examples)
        batches += job.local.samples(broadcast.round, client, examples) / steps
    return replace(broadcast, preceding=preceding)
