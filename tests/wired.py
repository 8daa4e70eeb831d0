"""An executor for tests: every order, letter and answer goes through the wire form, and comes out of it before it is
used. The client's side makes its job, its module and its data from the texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from fedflat.client.visit import ClientJob, Letter, visit
from fedflat.data.federation import Federation
from fedflat.engine.flat import Model
from fedflat.executors.crew import Crew, Source, Visited, threads
from fedflat.executors.wire import Answer, Order, decode, encode
from fedflat.running.order import job_of, order_of


@dataclass
class Wired:
    """Clients elsewhere, but for the network."""

    sent: int = 0
    """Bytes of all messages."""

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[Crew]:
        order = decode(encode(order_of(job)))
        assert isinstance(order, Order)
        with threads(1):
            yield _Far(self, *job_of(order))


@dataclass
class _Far:
    wire: Wired
    job: ClientJob
    fed: Federation
    models: dict[int, Model] = field(default_factory=dict)
    """What each client was sent last."""

    def visit(self, letters: Sequence[Letter]) -> Iterator[Visited]:
        for letter in letters:
            there = decode(self._carried(encode(letter)), model=self.models.get(letter.client))
            assert isinstance(there, Letter)
            self.models[letter.client] = Model(there.mail.params, there.mail.buffers)
            done = visit(self.job, there, self.fed.data(there.client))
            answer = decode(self._carried(encode(Answer(*done))))
            assert isinstance(answer, Answer)
            yield answer.reply, answer.memory

    def _carried(self, message: bytes) -> bytes:
        self.wire.sent += len(message)
        return message
