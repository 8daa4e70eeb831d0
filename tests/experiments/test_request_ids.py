"""Request ids: unique in a run, and without influence on its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch

from experiments.small import SIZES, experiment
from fedflat.client.training import ClientJob, Request
from fedflat.core.failures import ClientFailure
from fedflat.core.messages import Reply
from fedflat.data.federation import DataSpec, Federation
from fedflat.data.sets.in_memory import clients_of
from fedflat.execution.client_pool import ClientPool, PoolOutcome, Source
from fedflat.execution.in_process import InProcess
from fedflat.experiments.train import train


@dataclass
class Renaming:
    """An executor whose clients see other request ids than the server has given."""

    ids: list[str] = field(default_factory=list)

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[ClientPool]:
        with InProcess(threads=1).open(job, fed, source) as pool:
            yield _Pool(pool, self.ids)


@dataclass
class _Pool:
    pool: ClientPool
    ids: list[str]

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        own = {f"request {len(self.ids) + i}": one.id for i, one in enumerate(requests)}
        self.ids += own.values()
        renamed = [replace(one, id=name) for one, name in zip(requests, own, strict=True)]
        for outcome in self.pool.run(renamed):
            assert not isinstance(outcome, ClientFailure)
            reply, state = outcome
            assert isinstance(reply, Reply)
            yield replace(reply, request=own[reply.request]), state


def data() -> DataSpec:
    """Clients that keep data for tests."""
    rng = torch.Generator().manual_seed(0)
    labels = [torch.arange(2 * size) % 3 for size in SIZES]
    given = [(torch.randn(len(y), 4, generator=rng) + y.view(-1, 1), y) for y in labels]
    return clients_of(given, test=given[2], classes=3, split=0.5)


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "fedavg + personal() + ema()"},
        {"method": "fedgloss(rho_s=0.05, rho_l=0.05, beta=10) + wima(window=2)"},
        {"method": "fedavg", "topology": "clusters(alike(2))"},
        {"method": "fedavg", "topology": "chains(cut=1)"},
        {"method": "fedavg", "topology": "asynchronous(buffer=2)"},
    ],
    ids=lambda settings: " ".join(settings.values()),
)
def test_request_ids_are_unique_and_change_nothing(settings: dict[str, Any]) -> None:
    exp = experiment(**settings, on=data(), rounds=3)
    executor = Renaming()
    renamed, plain = train(exp, executor=executor), train(exp, executor=InProcess(threads=1))
    assert len(set(executor.ids)) == len(executor.ids) > 3 * 2
    assert any(one.startswith("evaluate/3/") for one in executor.ids)
    for row, other in zip(renamed.rows, plain.rows, strict=True):
        assert row["models"] == other["models"] if "models" in row else row["round"] == 3
    assert torch.equal(renamed.model.params, plain.model.params) if plain.model else True
