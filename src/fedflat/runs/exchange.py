"""One round's exchanges: letters to the cohort, replies counted, checked and folded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fedflat.client.states import ClientStates
from fedflat.client.visit import Letter, diagnose
from fedflat.errors import NotFinite
from fedflat.mail import Mail, Replies, Reply, fold
from fedflat.runs.executors import Crew
from fedflat.runs.ready import Ready
from fedflat.runs.state import Ledger
from fedflat.server.shadows import Notes


class Diverged(Exception):
    """A reply was not finite, and the run is to be recorded as diverged."""


@dataclass
class Exchange:
    """The cohort of a round as the server sees it: `send` is its gradient oracle."""

    ready: Ready
    crew: Crew
    cohort: list[int]
    clients: ClientStates
    shadows: dict[str, Notes]
    ledger: Ledger

    def send(self, mail: Mail) -> Replies:
        """One call, one exchange."""
        exp = self.ready.exp
        weighting = exp.weighting or exp.method.weighting or "sized"
        rule = exp.method.rule.combine if exp.method.rule else None
        return fold(mail, self._dispatch(mail), population=self.ready.fed.population, weighting=weighting, rule=rule)

    def _dispatch(self, mail: Mail) -> Iterator[Reply]:
        shadows = [shadow for shadow in self.ready.exp.method.shadows if shadow.hears]
        letters = [Letter(client, mail, self.clients.memory(client)) for client in self.cohort]
        for letter, (reply, memory) in zip(letters, self.crew.visit(letters), strict=True):
            self._count(mail, reply)
            if not reply.finite:
                self._object(letter)
                continue
            if mail.commit:
                self.clients.stage(reply.client, memory)
                for shadow in shadows:
                    shadow.hear(self.shadows[shadow.key], self.ready.scene, mail, reply)
            yield reply

    def _count(self, mail: Mail, reply: Reply) -> None:
        remote = 0 if self.ready.exp.method.pooled else 1  # in centralised training nothing is sent
        own = self.ready.withheld * reply.delta.element_size()
        self.ledger = replace(
            self.ledger,
            down=self.ledger.down + remote * (mail.nbytes - (0 if mail.repeat else own)),
            up=self.ledger.up + remote * (reply.nbytes - own),
            samples=self.ledger.samples + reply.samples,
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
