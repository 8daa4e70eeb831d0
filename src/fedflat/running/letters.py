"""Letters to the clients of a round: a mail, what each client remembers, and what no other letter is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import overload

from fedflat.client.visit import Letter
from fedflat.clock.timetable import Ended, Visit
from fedflat.engine.mail import Mail
from fedflat.engine.missing import Missing
from fedflat.executors.memories import ClientStates
from fedflat.topology.crowd import Chain

SHADOW = "shadow:"
"""Before the key of a shadow that keeps something for each client, in the client's memory."""


@dataclass(frozen=True)
class Letters(Sequence[Letter]):
    """A mail to each of some clients; a client's memory is fetched when its letter is taken."""

    mails: Mapping[int, Mail]
    cohort: Sequence[int]
    clients: ClientStates
    exchange: int = 1
    """Which exchange of the round it is."""
    lacking: Set[int] = frozenset()
    """Who must be sent a model that the others still have."""

    def __len__(self) -> int:
        return len(self.cohort)

    def __iter__(self) -> Iterator[Letter]:
        return map(self.to, self.cohort)

    @overload
    def __getitem__(self, place: int) -> Letter: ...

    @overload
    def __getitem__(self, place: slice) -> Letters: ...

    def __getitem__(self, place: int | slice) -> Letter | Letters:
        if isinstance(place, slice):
            return replace(self, cohort=self.cohort[place])
        return self.to(self.cohort[place])

    def to(self, client: int) -> Letter:
        """The letter to one client, with what its own pieces remember."""
        memory = self.clients.memory(client)
        own = {key: kept for key, kept in memory.items() if not key.startswith(SHADOW)}
        return Letter(client, self.mail_to(client), own, self.id(client))

    def mail_to(self, client: int) -> Mail:
        """Its mail, with a model that this client lacks and the others still have."""
        return self.mails[client].after(None) if client in self.lacking else self.mails[client]

    def id(self, client: int) -> str:
        """What no other letter of the run is called."""
        mail = self.mails[client]
        return f"{mail.round}/{self.exchange}/{client}" + (f"/{mail.visit}" if mail.visit else "")

    def lost(self, lost: Mapping[Visit, Ended]) -> Iterator[Missing]:
        """Those of its clients that will not answer."""
        for client, mail in self.mails.items():
            ended = lost.get((client, mail.visit))
            if ended is not None:
                yield Missing(client, self.id(client), ended.reason, ended.why)

    @property
    def ids(self) -> dict[str, int]:
        """The ids of all letters, and whom they go to."""
        return {self.id(client): client for client in self.cohort}


@dataclass
class Line:
    """From a slot of the server to the clients it asks in a round."""

    slot: str
    chains: Sequence[Chain]
    last: Mail | None = None
    """What they were sent last."""
    count: int = 0
    """Exchanges so far."""
    lacking: set[int] = field(default_factory=set)
    """Who was missing, and may not have what it was sent last."""
    clock: float = 0.0
    """Simulated seconds when its last exchange was over."""
    chosen: bool = False
    """Whether those who came first have been taken, where more were asked."""

    def letters(self, clients: ClientStates, mails: Mapping[int, Mail], cohort: Sequence[int]) -> Letters:
        """Letters to a cohort, of its exchange of now."""
        return Letters(mails, cohort, clients, self.count, frozenset(self.lacking))

    def reaching(self, mail: Mail) -> Sequence[Chain]:
        """Training goes along the chains; whatever else is asked is asked of every client by itself."""
        each = dict.fromkeys(client for chain in self.chains for client in chain)
        return self.chains if mail.ask.trains else [(client,) for client in each]
