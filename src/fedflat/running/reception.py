"""What becomes of each visit of a round: counted, excused if nothing came of it, kept, and told to all who listen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fedflat.attacks.attack import ATTACK
from fedflat.client.diagnosis import diagnose
from fedflat.client.piece import Memory
from fedflat.engine.mail import Mail, Reply, Sheaf, rows
from fedflat.engine.missing import NOT_FINITE, Missing
from fedflat.executors.crew import Visited, threads
from fedflat.executors.memories import ClientStates
from fedflat.running.attendance import Attendance
from fedflat.running.letters import SHADOW, Letters, Line
from fedflat.running.listening import Ear
from fedflat.running.prepare import Ready
from fedflat.running.relay import Relay
from fedflat.running.state import Ledger
from fedflat.server.shadows import Notes, Shadow


@dataclass
class Reception:
    """Where the visits of a round end."""

    ready: Ready
    round: int
    clients: ClientStates
    shadows: dict[str, Notes]
    ledger: Ledger
    ear: Ear = field(default_factory=Ear)
    """Who listens to the round."""

    def __post_init__(self) -> None:
        self.attendance = Attendance(self.ready.exp)
        self._hearing = [one for one in self.ready.exp.method.hearing if one.key in self.shadows]

    @property
    def hears_each(self) -> bool:
        """Whether somebody wants every single reply."""
        return bool(self._hearing)

    def taken(
        self, line: Line, relay: Relay, letters: Letters, visited: Visited, *, last: bool
    ) -> tuple[Reply | Sheaf, Memory] | None:
        """What came, counted, if it can be used; who is missing is excused if that is allowed, and ends its chain."""
        missing = visited if isinstance(visited, Missing) else None
        if not isinstance(visited, Missing):
            reply = visited[0]
            self._count(letters, relay, reply, last=last)
            line.lacking.difference_update(clients_of(reply))
            if reply.finite:
                self._overheard(letters, reply)
                return visited
            assert isinstance(reply, Reply)
            missing = Missing(reply.client, reply.letter, NOT_FINITE)
        assert missing is not None
        if missing.reason != NOT_FINITE:
            self._count(letters, relay, missing, last=last)
            line.lacking.add(missing.client)
        self.ledger = self.ledger.plus(missing=1)
        self.attendance.excuse(self.round, missing, partial(self._diagnose, letters, missing.client))
        relay.break_off(missing.client)
        return None

    def _overheard(self, letters: Letters, reply: Reply | Sheaf) -> None:
        """Show an attack what clients were sent; its time is not the training's."""
        attack, begun = self.ready.exp.attack, time.monotonic()
        if attack is None or not attack.listens:
            return
        for client in clients_of(reply):
            mail = letters.mail_to(client)
            if mail.commit and mail.ask.trains:
                with threads(1):  # the same bits wherever visits are made
                    attack.overhear(self.ready.victim, self.shadows.setdefault(ATTACK, {}), client, mail)
        self.ear.seconds += time.monotonic() - begun

    def heard(self, mail: Mail, reply: Reply | Sheaf) -> Memory:
        """Tell all who listen; what shadows keep for the client, to be kept with its memory."""
        self.ear.hear(mail, reply)
        kept: Memory = {}
        for one in self._hearing:
            assert isinstance(reply, Reply)
            if isinstance(one, Shadow):
                kept |= self._show(one, reply)
            else:
                one.hear(self.shadows[one.key], reply)
        return kept

    def _show(self, shadow: Shadow, reply: Reply) -> Memory:
        """Let a shadow hear a reply; what it keeps for the client, to be kept with the client's memory."""
        key = SHADOW + shadow.key
        kept = dict(self.clients.memory(reply.client).get(key, {})) if shadow.keeps else {}
        shadow.hear(self.shadows[shadow.key], kept, self.ready.scene, reply)
        return {key: kept} if kept else {}

    def stage(self, reply: Reply | Sheaf, memory: Memory) -> None:
        """Take over what clients will remember, once the round is."""
        if isinstance(reply, Reply):
            self.clients.accept([reply.letter], [reply.client])
            self.clients.stage(reply.client, memory)
            return
        self.clients.accept(reply.letters, reply.clients)
        for client, mine in zip(reply.clients, rows(memory, len(reply)), strict=True) if memory else ():
            self.clients.stage(client, mine)

    def _count(self, letters: Letters, relay: Relay, came: Reply | Sheaf | Missing, *, last: bool) -> None:
        """Count what is sent: of the part that stays with the clients, only its first values, at a first visit."""
        clients = clients_of(came)
        n, known, mail = len(clients), sum(client in self.clients for client in clients), letters.mail_to(clients[0])
        remote = 0 if self.ready.exp.method.pooled else 1  # in centralised training nothing is sent
        own = self.ready.withheld * mail.params.element_size() if mail.ask.trains else 0
        down = remote * (n * mail.nbytes - known * own)
        models, sent = remote * n * mail.models, 0 if relay.sent else 1
        way = {"down": sent * down, "models_s2c": sent * models}
        if not relay.begins(clients[0]):
            way = {"c2c": down, "models_c2c": models}
        if isinstance(came, Missing):
            self.ledger = self.ledger.plus(**way)
            return
        up = {"up": remote * (came.nbytes - n * own), "models_c2s": remote * came.models} if last else {}
        self.ledger = self.ledger.plus(samples=n * came.samples, **way, **up)

    @property
    def absent(self) -> dict[str, Any]:
        """Who was missing in the round, to be written down; nothing if nobody was."""
        told = self.attendance.told()
        return {"round": self.round + 1, "missing": told} if told else {}

    def _diagnose(self, letters: Letters, client: int) -> str:
        if not self.ready.fed.here:
            return "where it began is not known here, where the client's data are not"
        return diagnose(self.ready.job, letters.to(client), self.ready.fed.data(client))


def clients_of(came: Reply | Sheaf | Missing) -> Sequence[int]:
    """Whose visits have ended."""
    return came.clients if isinstance(came, Sheaf) else (came.client,)
