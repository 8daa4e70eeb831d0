"""One round's exchanges: letters to the cohort, replies counted, checked and folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import overload

from fedflat.client.diagnosis import diagnose
from fedflat.client.piece import Memory
from fedflat.client.visit import Letter
from fedflat.engine.mail import Mail, Replies, Reply, Sheaf, fold, rows
from fedflat.engine.missing import Missing
from fedflat.errors import FedflatError, NotFinite
from fedflat.executors.crew import Answered, Crew, Visited
from fedflat.executors.memories import ClientStates
from fedflat.running.listening import Ear
from fedflat.running.prepare import Ready
from fedflat.running.state import Ledger
from fedflat.server.shadows import Notes, Shadow

SHADOW = "shadow:"
"""Before the key of a shadow that keeps something for each client, in the client's memory."""


class Diverged(Exception):
    """A reply was not finite, and the run is to be recorded as diverged."""


@dataclass(frozen=True)
class Letters(Sequence[Letter]):
    """One mail to each of a cohort; a client's memory is fetched when its letter is taken."""

    mail: Mail
    cohort: list[int]
    clients: ClientStates
    exchange: int = 1
    """Which exchange of the round it is."""

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
        return Letter(client, self.mail, own, f"{self.mail.round}/{self.exchange}/{client}")


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

    def send(self, mail: Mail) -> Replies:
        """One call, one exchange."""
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
        letters = Letters(self.ready.addressed(mail, self.cohort), self.cohort, self.clients, self.count)
        counts = mail.commit and mail.ask.commits
        for reply, memory in _apart(self.crew.visit(letters), each=counts and bool(shadows or protocols)):
            self._count(mail, reply)
            if not reply.finite:
                assert isinstance(reply, Reply)
                self._object(letters.to(reply.client))
                continue
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

    def _show(self, shadow: Shadow, reply: Reply) -> Memory:
        """Let a shadow hear a reply; what it keeps for the client, to be kept with the client's memory."""
        key = SHADOW + shadow.key
        kept = dict(self.clients.memory(reply.client).get(key, {})) if shadow.keeps else {}
        shadow.hear(self.shadows[shadow.key], kept, self.ready.scene, reply)
        return {key: kept} if kept else {}

    def _stage(self, reply: Reply | Sheaf, memory: Memory) -> None:
        if isinstance(reply, Reply):
            self.clients.stage(reply.client, memory)
        elif memory:
            for client, mine in zip(reply.clients, rows(memory, len(reply)), strict=True):
                self.clients.stage(client, mine)

    def _count(self, mail: Mail, reply: Reply | Sheaf) -> None:
        """Count what is sent: of the part that stays with the clients, only its first values, at a first visit."""
        clients = reply.clients if isinstance(reply, Sheaf) else (reply.client,)
        n, known = len(clients), sum(client in self.clients for client in clients)
        remote = 0 if self.ready.exp.method.pooled else 1  # in centralised training nothing is sent
        own = self.ready.withheld * reply.delta.element_size() if mail.ask.trains else 0
        self.ledger = replace(
            self.ledger,
            down=self.ledger.down + remote * (n * mail.nbytes - known * own),
            up=self.ledger.up + remote * (reply.nbytes - n * own),
            samples=self.ledger.samples + n * reply.samples,
        )

    def _object(self, letter: Letter) -> None:
        """A reply that is not finite: say whose it is and where it went wrong, skip it, or stop the run."""
        if self.ready.exp.on_bad == "skip":
            return
        if self.ready.exp.on_bad == "stop":
            raise Diverged
        why = diagnose(self.ready.job, letter, self.ready.fed.data(letter.client))
        raise NotFinite(
            f"round {letter.mail.round}, client {letter.client}: the reply is NaN or infinite; {why}. Lower the "
            "learning rate or clip gradients; on_bad='skip' leaves such replies out, on_bad='stop' records the run "
            "as diverged."
        )


def _apart(visits: Iterable[Visited], *, each: bool) -> Iterator[Answered]:
    """Sheaves as they are; their replies one by one if ``each`` is wanted, or if some are not finite."""
    for visited in visits:
        if isinstance(visited, Missing):
            raise visited.error or FedflatError(f"{visited}.")
        reply, memory = visited
        if isinstance(reply, Sheaf) and (each or not reply.finite):
            yield from zip(reply, rows(memory, len(reply)), strict=True)
        else:
            yield reply, memory
