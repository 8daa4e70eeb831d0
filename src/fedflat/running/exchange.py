"""One round's exchanges: letters to the cohort, replies counted, checked and folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, overload

from fedflat.client.diagnosis import diagnose
from fedflat.client.piece import Memory
from fedflat.client.visit import Letter
from fedflat.engine.mail import Mail, Replies, Reply, Sheaf, fold, rows
from fedflat.engine.missing import NOT_FINITE, Missing
from fedflat.executors.crew import Crew
from fedflat.executors.memories import ClientStates
from fedflat.running.attendance import Attendance, answers
from fedflat.running.listening import Ear
from fedflat.running.prepare import Ready
from fedflat.running.state import Ledger
from fedflat.server.shadows import Notes, Shadow

SHADOW = "shadow:"
"""Before the key of a shadow that keeps something for each client, in the client's memory."""


@dataclass(frozen=True)
class Letters(Sequence[Letter]):
    """One mail to each of a cohort; a client's memory is fetched when its letter is taken."""

    mail: Mail
    cohort: list[int]
    clients: ClientStates
    exchange: int = 1
    """Which exchange of the round it is."""
    lacking: Set[int] = frozenset()
    """Who must be sent a model that the others still have."""

    def __len__(self) -> int:
        return len(self.cohort)

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
        """The mail, with a model that one client lacks and the others still have."""
        return self.mail.after(None) if client in self.lacking else self.mail

    def id(self, client: int) -> str:
        """What no other letter of the run is called."""
        return f"{self.mail.round}/{self.exchange}/{client}"

    @property
    def ids(self) -> dict[str, int]:
        """The ids of all letters, and whom they go to."""
        return {self.id(client): client for client in self.cohort}


@dataclass
class Exchange:
    """The cohort of a round as the server sees it: `send` is its gradient oracle."""

    ready: Ready
    crew: Crew
    cohort: list[int]
    clients: ClientStates
    shadows: dict[str, Notes]
    ledger: Ledger
    ear: Ear = field(default_factory=Ear)
    """Who listens to the round."""
    last: Mail | None = None
    """What the cohort was sent last in this round."""
    count: int = 0
    """Exchanges of the round so far."""

    def __post_init__(self) -> None:
        self.attendance = Attendance(self.ready.exp)
        self.lacking: set[int] = set()
        """Who was missing in this round, and may not have what it was sent last."""

    def send(self, mail: Mail) -> Replies:
        """One call, one exchange."""
        self.clients.kept_by(self.crew, mail.round)
        mail = self.last = mail.after(self.last)
        self.count += 1
        exp = self.ready.exp
        weighting = exp.weighting or exp.method.weighting or "sized"
        rule = partial(exp.method.rule.of_round, mail.round) if exp.method.rule else None
        population = self.ready.fed.population
        replies = fold(mail, self._dispatch(mail), population=population, weighting=weighting, rule=rule)
        self.ear.folded(replies)
        return replies

    def _dispatch(self, mail: Mail) -> Iterator[Reply | Sheaf]:
        method = self.ready.exp.method
        shadows = [s for s in method.shadows if s.hears and s.key in self.shadows]
        protocols = [one for one in method.protocols if one.key in self.shadows]
        sent, lacking = self.ready.addressed(mail, self.cohort), frozenset(self.lacking)
        letters = Letters(sent, self.cohort, self.clients, self.count, lacking)
        counts = mail.commit and mail.ask.commits
        came, each = 0, counts and bool(shadows or protocols)
        for visited in answers(self.crew.visit(letters), letters.ids, mail, each=each):
            if isinstance(visited, Missing):
                self._miss(visited, letters)
                continue
            reply, memory = visited
            self._count(letters, reply)
            if not reply.finite:
                assert isinstance(reply, Reply)
                self._miss(Missing(reply.client, reply.letter, NOT_FINITE), letters)
                continue
            came += len(reply) if isinstance(reply, Sheaf) else 1
            if counts:
                self.ear.hear(mail, reply)
                for shadow in shadows:
                    assert isinstance(reply, Reply)
                    memory = memory | self._show(shadow, reply)
                for protocol in protocols:
                    assert isinstance(reply, Reply)
                    protocol.hear(self.shadows[protocol.key], reply)
                self._stage(reply, memory)
            yield reply
        self.attendance.enough(mail.round, came)

    def _show(self, shadow: Shadow, reply: Reply) -> Memory:
        """Let a shadow hear a reply; what it keeps for the client, to be kept with the client's memory."""
        key = SHADOW + shadow.key
        kept = dict(self.clients.memory(reply.client).get(key, {})) if shadow.keeps else {}
        shadow.hear(self.shadows[shadow.key], kept, self.ready.scene, reply)
        return {key: kept} if kept else {}

    def _stage(self, reply: Reply | Sheaf, memory: Memory) -> None:
        if isinstance(reply, Reply):
            self.clients.accept([reply.letter], [reply.client])
            self.clients.stage(reply.client, memory)
            return
        self.clients.accept(reply.letters, reply.clients)
        for client, mine in zip(reply.clients, rows(memory, len(reply)), strict=True) if memory else ():
            self.clients.stage(client, mine)

    def _count(self, letters: Letters, came: Reply | Sheaf | Missing) -> None:
        """Count what is sent: of the part that stays with the clients, only its first values, at a first visit."""
        clients = came.clients if isinstance(came, Sheaf) else (came.client,)
        n, known, mail = len(clients), sum(client in self.clients for client in clients), letters.mail_to(clients[0])
        remote = 0 if self.ready.exp.method.pooled else 1  # in centralised training nothing is sent
        own = self.ready.withheld * mail.params.element_size() if mail.ask.trains else 0
        self.ledger = replace(self.ledger, down=self.ledger.down + remote * (n * mail.nbytes - known * own))
        if isinstance(came, Missing):
            return
        self.ledger = replace(
            self.ledger,
            up=self.ledger.up + remote * (came.nbytes - n * own),
            samples=self.ledger.samples + n * came.samples,
        )
        self.lacking.difference_update(clients)

    @property
    def absent(self) -> dict[str, Any]:
        """Who was missing in the round, to be written down; nothing if nobody was."""
        told = self.attendance.told()
        return {"round": self.last.round + 1, "missing": told} if self.last and told else {}

    def _miss(self, one: Missing, letters: Letters) -> None:
        """Go on without a client, if that is allowed."""
        if one.reason != NOT_FINITE:
            self._count(letters, one)
            self.lacking.add(one.client)
        self.ledger = replace(self.ledger, missing=self.ledger.missing + 1)
        self.attendance.excuse(letters.mail.round, one, partial(self._diagnose, letters, one.client))

    def _diagnose(self, letters: Letters, client: int) -> str:
        if not self.ready.fed.here:
            return "where it began is not known here, where the client's data are not"
        return diagnose(self.ready.job, letters.to(client), self.ready.fed.data(client))
