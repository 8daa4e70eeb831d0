"""The local loop never waits for the device.

The device "meta" computes shapes and holds no numbers: to read one (`.item()`, `float()`, `if` on a
tensor, a copy to the host, indexing with a mask) is an error there. On a GPU each of these would
make the host wait for the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from fedflat.client.learner import Learner
from fedflat.client.training import ClientJob, Request, local_train, open_context, run_client
from fedflat.data.federation import Federation
from fedflat.execution.client_pool import ClientPool, PoolOutcome, Source
from fedflat.experiments.train import train
from fedflat.methods.domain_models import SeparateModels
from fedflat.methods.fedcg import Branches
from test_every_method import EVERY, experiment, method_of

WAITS = {
    "fedala(": "it blends until its loss settles, once before the walk",
    "domain_models(": "each network takes the images of its own domain",
    "ifca(": "it chooses the model with the lowest loss, once before the walk",
}
"""Methods that look at numbers before they walk, by necessity."""


def away(value: Any) -> Any:
    """The same with every tensor on the device without numbers."""
    if isinstance(value, Tensor):
        return value.to("meta")
    return {key: away(inner) for key, inner in value.items()} if isinstance(value, dict) else value


@dataclass
class Shadowing:
    """Makes each visit, and then its walk once more where no number can be read."""

    walks: int = 0

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
        yield self

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        for request in requests:
            if request.broadcast.instruction.trains:
                self.shadow(request)
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
        local, job = self.there.local, self.there
        stack = [(piece, open_context(job, request, data, piece)) for piece in job.pieces]
        for piece, v in stack:
            data = piece.data(v, data) if isinstance(piece, Branches | SeparateModels) else data
        places = local.batches(job.seed, broadcast.round, request.client, len(data))
        batches = (data.batch(some, job.learner.dtype) for some in places)
        job.learner.flat.module.train()
        trained = local_train(stack, job.learner, sent.params, sent.buffers, broadcast.lr, batches)
        assert trained.returned.is_meta
        assert trained.loss.is_meta
        assert all(t.is_meta for _, v in stack for t in (*v.state.values(), *v.outbox.values()))
        self.walks += 1


@pytest.mark.parametrize("text", [text for text in EVERY if not text.startswith(tuple(WAITS))])
def test_no_number_is_read_while_walking(text: str) -> None:
    ears = Shadowing()
    train(replace(experiment(method_of(text)), rounds=2), executor=ears)
    assert ears.walks >= 2


def test_the_check_can_fail() -> None:
    with pytest.raises(RuntimeError, match="meta"):
        float(torch.zeros(1, device="meta"))
    with pytest.raises(RuntimeError, match="meta"):
        torch.zeros(1, device="meta").to("cpu")


@pytest.mark.parametrize("name", WAITS)
def test_the_exceptions_are_exceptions(name: str) -> None:
    (text,) = [text for text in EVERY if text.startswith(name) and "personal" not in text]
    with pytest.raises(RuntimeError, match=r"[mM]eta"):
        train(replace(experiment(method_of(text)), rounds=3), executor=Shadowing())
