"""Executors that make each request twice: here, and its local training once more on another
device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from fedflat.client.learner import Learner
from fedflat.client.piece import ClientContext
from fedflat.client.training import (
    ClientJob,
    LocalResult,
    Request,
    local_train,
    open_context,
    run_client,
)
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation
from fedflat.execution.client_pool import ClientPool, PoolOutcome, Source
from fedflat.methods.domain_models import SeparateModels
from fedflat.methods.fedcg import Branches

WAITS = {
    "fedala(": "it blends until its loss settles, once before local training",
    "domain_models(": "each network takes the images of its own domain",
    "ifca(": "it chooses the model with the lowest loss, once before local training",
}
"""Methods that look at numbers before they local_train, by necessity."""


def away(value: Any) -> Any:
    """The same with every tensor on the device without numbers."""
    if isinstance(value, Tensor):
        return value.to("meta")
    return {key: away(inner) for key, inner in value.items()} if isinstance(value, dict) else value


@dataclass
class Shadowing:
    """Makes each request, and first the local training of a client of each exchange where no number
    can be read: one of those that have a state, and one of those that have none."""

    trainings: int = 0

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[ClientPool]:
        here = job.learner
        there = Learner(
            here.model,
            here.shape,
            here.outputs,
            seed=here.seed,
            task=here.task,
            device="meta",
            pieces=job.pieces,
        )
        self.job, self.fed, self.there = job, fed, replace(job, learner=there)
        held = {p.data_ptr() for p in here.flat.module.parameters()}
        yield self
        assert {p.data_ptr() for p in here.flat.module.parameters()} == held

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        training = [request for request in requests if request.broadcast.instruction.trains]
        for request in {frozenset(request.state): request for request in training}.values():
            self.shadow(request)
        for request in requests:
            yield run_client(self.job, request, self.fed.data(request.client))

    def shadow(self, request: Request) -> None:
        broadcast = request.broadcast
        sent = replace(
            broadcast,
            params=away(broadcast.params),
            buffers=away(broadcast.buffers),
            extras=away(broadcast.extras),
        )
        request, data = (
            Request(request.client, sent, away(request.state)),
            self.fed.data(request.client).to("meta"),
        )
        trained, contexts = train_on_batches(self.there, request, data, self.places(request))
        assert trained.returned.is_meta
        assert trained.loss.is_meta
        assert all(t.is_meta for v in contexts for t in (*v.state.values(), *v.outbox.values()))
        self.trainings += 1

    def places(self, request: Request) -> list[Tensor]:
        """The positions of the examples of each batch."""
        job, client, t = self.job, request.client, request.broadcast.round
        return list(job.local.batches(job.seed, t, client, len(self.fed.data(client))))


def train_on_batches(
    job: ClientJob, request: Request, data: ClientData, places: Sequence[Tensor]
) -> tuple[LocalResult, list[ClientContext]]:
    """Train on the given batches; returns the result and what each piece saw."""
    sent = request.broadcast
    stack = [(piece, open_context(job, request, data, piece)) for piece in job.pieces]
    for piece, v in stack:
        data = piece.data(v, data) if isinstance(piece, Branches | SeparateModels) else data
    batches = (data.batch(some, job.learner.dtype) for some in places)
    job.learner.flat.module.train()
    result = local_train(stack, job.learner, sent.params, sent.buffers, sent.lr, batches)
    return result, [v for _, v in stack]
