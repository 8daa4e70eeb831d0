"""Requests to several clients by columns.

A stack and a worker process need one broadcast and the columns. Single requests are only made if
somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol, overload, runtime_checkable

from fedflat.client.piece import ClientState
from fedflat.client.training import Request
from fedflat.core.messages import Broadcast


@dataclass(frozen=True)
class RequestColumns(Sequence[Request]):
    """Requests with the same broadcast: a column for each part in which they differ."""

    broadcast: Broadcast
    clients: Sequence[int]
    ids: Sequence[str]
    """The id of each request, see `Request.id`."""
    states: Sequence[ClientState] | None = None
    """The state of each client. None: no client has one."""

    @classmethod
    def of(cls, requests: Sequence[Request]) -> RequestColumns:
        """The first of these requests by columns, up to the first that has another broadcast."""
        broadcast = requests[0].broadcast
        same = list(takewhile(lambda one: one.broadcast is broadcast, requests))
        states = [one.state for one in same]
        return cls(
            broadcast,
            [one.client for one in same],
            [one.id for one in same],
            states if any(states) else None,
        )

    def __len__(self) -> int:
        return len(self.clients)

    def __iter__(self) -> Iterator[Request]:
        return map(self.__getitem__, range(len(self)))

    @overload
    def __getitem__(self, place: int) -> Request: ...

    @overload
    def __getitem__(self, place: slice) -> RequestColumns: ...

    def __getitem__(self, place: int | slice) -> Request | RequestColumns:
        states = self.states
        if isinstance(place, slice):
            return RequestColumns(
                self.broadcast,
                self.clients[place],
                self.ids[place],
                None if states is None else states[place],
            )
        state = {} if states is None else states[place]
        return Request(self.clients[place], self.broadcast, state, self.ids[place])


@runtime_checkable
class InColumns(Protocol):
    """Requests that are kept by columns already, such as those of an exchange."""

    def columns(self) -> RequestColumns:
        """The first of these requests, up to the first that has another broadcast."""
        ...


def columns_of(requests: Sequence[Request]) -> RequestColumns:
    """The first of some requests by columns, up to the first that has another broadcast."""
    if isinstance(requests, RequestColumns):
        return requests
    return requests.columns() if isinstance(requests, InColumns) else RequestColumns.of(requests)
