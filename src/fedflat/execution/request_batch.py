"""The requests of one exchange to a cohort."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import overload

from fedflat.client.piece import ClientState
from fedflat.client.request_columns import RequestColumns
from fedflat.client.training import Request
from fedflat.core.failures import ClientFailure
from fedflat.core.messages import Broadcast
from fedflat.execution.client_states import AVERAGE, ClientStates

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
        return map(self._request, self.cohort, self._ids)

    @overload
    def __getitem__(self, place: int) -> Request: ...

    @overload
    def __getitem__(self, place: slice) -> RequestBatch: ...

    def __getitem__(self, place: int | slice) -> Request | RequestBatch:
        if isinstance(place, slice):
            cohort = self.cohort[place]
            return self if len(cohort) == len(self) else replace(self, cohort=cohort)
        return self.to(self.cohort[place])

    def to(self, client: int) -> Request:
        """The request to one client, with the state of its own pieces."""
        return self._request(client, self.id(client))

    def _request(self, client: int, id: str) -> Request:
        return Request(client, self.broadcast_to(client), self._state(client), id)

    def _state(self, client: int) -> ClientState:
        if not self.clients.in_use:
            return {}
        own = self.clients.state(client)
        return {k: kept for k, kept in own.items() if not k.startswith(AVERAGE)}

    def columns(self) -> RequestColumns:
        """The first of these requests by columns, up to the first that has another broadcast.

        The states of their clients are read.
        """
        broadcast, cohort = self.broadcast_to(self.cohort[0]), self.cohort
        if self._broadcast is None or self.missing_model:
            cohort = list(takewhile(lambda one: self.broadcast_to(one) is broadcast, cohort))
        states = list(map(self._state, cohort)) if self.clients.in_use else []
        ids = self._ids[: len(cohort)]
        return RequestColumns(broadcast, cohort, ids, states if any(states) else None)

    @cached_property
    def _broadcast(self) -> Broadcast | None:
        """The broadcast of all clients, None if there are several."""
        found = list(self.broadcasts.values())
        return found[0] if len(set(map(id, found))) == 1 else None

    def broadcast_to(self, client: int) -> Broadcast:
        """The broadcast to one client, with the model if this client lacks it."""
        broadcast = self.broadcasts[client]
        return broadcast.after(None) if client in self.missing_model else broadcast

    def id(self, client: int) -> str:
        """An id that no other request of the run has."""
        before, after = self._id_parts(self.broadcasts[client])
        return f"{before}{client}{after}"

    def _id_parts(self, broadcast: Broadcast) -> tuple[str, str]:
        """What precedes and follows the client in an id."""
        again = f"/{broadcast.repetition}" if broadcast.repetition else ""
        return f"{broadcast.round}/{self.exchange}/", again

    @cached_property
    def _ids(self) -> list[str]:
        if self._broadcast is None:
            return list(map(self.id, self.cohort))
        before, after = self._id_parts(self._broadcast)
        return [f"{before}{client}{after}" for client in self.cohort]

    def failures(self, unanswered: Unanswered) -> Iterator[ClientFailure]:
        """Failures of the clients that are known not to answer."""
        for client, broadcast in self.broadcasts.items() if unanswered else ():
            found = unanswered.get((client, broadcast.repetition))
            if found is not None:
                yield ClientFailure(client, self.id(client), *found)

    @property
    def ids(self) -> dict[str, int]:
        """The client of each request, by id."""
        return dict(zip(self._ids, self.cohort, strict=True))


def columns_of(requests: Sequence[Request]) -> RequestColumns:
    """The first of some requests by columns, up to the first that has another broadcast."""
    if isinstance(requests, RequestColumns):
        return requests
    return requests.columns() if isinstance(requests, RequestBatch) else RequestColumns.of(requests)
