"""Letters to the clients of a round: a mail, what each client remembers, and what no other letter
is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import overload

from fedflat.client.training import Request
from fedflat.core.failures import ClientFailure
from fedflat.core.messages import Broadcast
from fedflat.execution.client_states import ClientStates
from fedflat.simulation.timetable import Completion, VisitKey
from fedflat.topologies.population import Chain

SHADOW = "shadow:"
"""Before the key of a shadow that keeps something for each client, in the client's memory."""


@dataclass(frozen=True)
class RequestBatch(Sequence[Request]):
    """A mail to each of some clients; a client's memory is fetched when its letter is taken."""

    broadcasts: Mapping[int, Broadcast]
    cohort: Sequence[int]
    clients: ClientStates
    exchange: int = 1
    """Which exchange of the round it is."""
    missing_model: Set[int] = frozenset()
    """Who must be sent a model that the others still have."""

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
        """The letter to one client, with what its own pieces remember."""
        state = self.clients.state(client)
        own = {key: kept for key, kept in state.items() if not key.startswith(SHADOW)}
        return Request(client, self.broadcast_to(client), own, self.id(client))

    def broadcast_to(self, client: int) -> Broadcast:
        """Its mail, with a model that this client lacks and the others still have."""
        return (
            self.broadcasts[client].after(None)
            if client in self.missing_model
            else self.broadcasts[client]
        )

    def id(self, client: int) -> str:
        """What no other letter of the run is called."""
        broadcast = self.broadcasts[client]
        return f"{broadcast.round}/{self.exchange}/{client}" + (
            f"/{broadcast.repetition}" if broadcast.repetition else ""
        )

    def lost(self, lost: Mapping[VisitKey, Completion]) -> Iterator[ClientFailure]:
        """Those of its clients that will not answer."""
        for client, broadcast in self.broadcasts.items():
            ended = lost.get((client, broadcast.repetition))
            if ended is not None:
                yield ClientFailure(client, self.id(client), ended.reason, ended.why)

    @property
    def ids(self) -> dict[str, int]:
        """The ids of all letters, and whom they go to."""
        return {self.id(client): client for client in self.cohort}


@dataclass
class SlotExchange:
    """From a slot of the server to the clients it asks in a round."""

    slot: str
    chains: Sequence[Chain]
    last: Broadcast | None = None
    """What they were sent last."""
    count: int = 0
    """Exchanges so far."""
    missing_model: set[int] = field(default_factory=set)
    """Who was missing, and may not have what it was sent last."""
    clock: float = 0.0
    """Simulated seconds when its last exchange was over."""
    chosen: bool = False
    """Whether those who came first have been taken, where more were asked."""

    def requests(
        self, clients: ClientStates, broadcasts: Mapping[int, Broadcast], cohort: Sequence[int]
    ) -> RequestBatch:
        """Letters to a cohort, of its exchange of now."""
        return RequestBatch(broadcasts, cohort, clients, self.count, frozenset(self.missing_model))

    def chains_for(self, broadcast: Broadcast) -> Sequence[Chain]:
        """Training goes along the chains; whatever else is asked is asked of every client by
        itself."""
        each = dict.fromkeys(client for chain in self.chains for client in chain)
        return self.chains if broadcast.instruction.trains else [(client,) for client in each]
