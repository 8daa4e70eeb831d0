"""One round's exchanges: letters to the cohort, replies counted, checked and folded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fedflat.client.states import ClientStates
from fedflat.client.visit import ClientJob, Letter, diagnose
from fedflat.data.federation import Federation
from fedflat.errors import NotFinite
from fedflat.mail import Mail, Replies, Reply, fold
from fedflat.run.executors import Crew
from fedflat.run.experiment import Experiment
from fedflat.run.state import Ledger
from fedflat.server.shadows import Notes, Scene


class Diverged(Exception):
    """A reply was not finite, and the run is to be recorded as diverged."""


@dataclass
class Exchange:
    """The cohort of a round as the server sees it: `send` is its gradient oracle."""

    exp: Experiment
    job: ClientJob
    fed: Federation
    scene: Scene
    crew: Crew
    cohort: list[int]
    clients: ClientStates
    shadows: dict[str, Notes]
    ledger: Ledger

    def send(self, mail: Mail) -> Replies:
        """One call, one exchange."""
        weighting = self.exp.weighting or self.exp.method.weighting or "sized"
        return fold(mail, self._dispatch(mail), population=self.fed.population, weighting=weighting)

    def _dispatch(self, mail: Mail) -> Iterator[Reply]:
        letters = [Letter(client, mail, self.clients.memory(client)) for client in self.cohort]
        for letter, (reply, memory) in zip(letters, self.crew.visit(letters), strict=True):
            self._count(mail, reply)
            if not reply.finite:
                self._object(letter)
                continue
            if mail.commit:
                self.clients.stage(reply.client, memory)
                for shadow in self.exp.method.shadows:
                    if shadow.hears:
                        shadow.hear(self.shadows[shadow.key], self.scene, mail, reply)
            yield reply

    def _count(self, mail: Mail, reply: Reply) -> None:
        remote = 0 if self.exp.method.pooled else 1  # in centralised training nothing is sent
        self.ledger = replace(
            self.ledger,
            down=self.ledger.down + remote * mail.nbytes,
            up=self.ledger.up + remote * reply.nbytes,
            samples=self.ledger.samples + reply.samples,
        )

    def _object(self, letter: Letter) -> None:
        """A reply that is not finite: say whose it is and where it went wrong, skip it, or stop the run."""
        if self.exp.on_bad == "skip":
            return
        if self.exp.on_bad == "stop":
            raise Diverged
        why = diagnose(self.job, letter, self.fed.data(letter.client))
        raise NotFinite(
            f"round {letter.mail.round}, client {letter.client}: the reply is NaN or infinite; {why}. Lower the "
            "learning rate or clip gradients; on_bad='skip' leaves such replies out, on_bad='stop' records the run "
            "as diverged."
        )
