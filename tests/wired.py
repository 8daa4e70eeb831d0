"""An executor for tests: every order, letter and answer goes through the wire form, and comes out
of it before it is used. The client's side makes its job, its module and its data from the texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from fedflat.client.training import ClientJob, Request, run_client
from fedflat.core.flat import Model
from fedflat.data.federation import Federation
from fedflat.execution.client_pool import ClientPool, PoolOutcome, Source, threads
from fedflat.execution.wire_format import ClientReply, JobSpec, decode, encode
from fedflat.experiments.job_spec import job_of_spec, spec_of_job


@dataclass
class Wired:
    """Clients elsewhere, but for the network."""

    sent: int = 0
    """Bytes of all messages."""

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[ClientPool]:
        order = decode(encode(spec_of_job(job)))
        assert isinstance(order, JobSpec)
        with threads(1):
            yield _Far(self, *job_of_spec(order))


@dataclass
class _Far:
    wire: Wired
    job: ClientJob
    fed: Federation
    models: dict[int, Model] = field(default_factory=dict)
    """What each client was sent last."""

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        for request in requests:
            there = decode(self._carried(encode(request)), model=self.models.get(request.client))
            assert isinstance(there, Request)
            self.models[request.client] = Model(there.broadcast.params, there.broadcast.buffers)
            done = run_client(self.job, there, self.fed.data(there.client))
            answer = decode(self._carried(encode(ClientReply(*done))))
            assert isinstance(answer, ClientReply)
            yield answer.reply, answer.state

    def _carried(self, message: bytes) -> bytes:
        self.wire.sent += len(message)
        return message
