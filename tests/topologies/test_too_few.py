"""Several server models, one without replies: it does not change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from experiments.small import experiment
from fedflat.client.training import Request
from fedflat.core.failures import ClientFailure
from fedflat.errors import FedflatError
from fedflat.execution.client_pool import PoolOutcome, Then, WorkLeft
from fedflat.execution.in_process import InProcess
from fedflat.experiments.prepare import prepare
from fedflat.experiments.results.results import Result
from fedflat.experiments.train import train
from fedflat.server.client_selection import ClientSampler
from topologies.test_chain_exchange import BANK, Ahead, Within


@dataclass
class Without(Within):
    """Some clients never reply from one round on."""

    absent: Sequence[int]
    since: int = 0

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        for request in requests:
            away = request.client in self.absent and request.broadcast.round >= self.since
            yield from (
                [ClientFailure(request.client, request.id, "crashed")]
                if away
                else self.pool.run([request])
            )


class WithoutAtOnce(Without):
    """The same, along chains that go on by themselves."""

    def run_chains(
        self, requests: Sequence[Request], then: Then, left: WorkLeft
    ) -> Iterator[PoolOutcome]:
        ahead = Ahead("last")
        ahead.pool = self
        yield from ahead.run_chains(requests, then, left)


def weights(result: Result, slots: Sequence[str]) -> list[torch.Tensor]:
    return [p for slot in slots for p in result.module(slot).parameters()]


@pytest.mark.parametrize(
    "topology", ["clusters({})", "clusters({}, shared='features')", "hierarchy({}, every=3)"]
)
@pytest.mark.parametrize("method", ["fedsam(0.1) + fedavgm()", "naive_fedgloss(0.1, admm=False)"])
def test_a_cluster_is_as_if_no_client_of_it_had_been_selected(topology: str, method: str) -> None:
    def run(cohorts: list[list[int]], executor: Any) -> Result:
        output = topology.format("given_groups([[0, 1], [2, 3, 4]])")
        sampler = ClientSampler(cohorts=cohorts)
        return train(
            experiment(method, topology=output, sampler=sampler, rounds=3, min_replies=1),
            executor=executor,
        )

    found = run([[0, 3, 1, 2]] * 3, Without(absent=[3, 2], since=1))
    other = run([[0, 3, 1, 2], [0, 1], [0, 1]], InProcess(threads=1))
    slots = ("cluster0", "cluster1")
    assert all(map(torch.equal, weights(found, slots), weights(other, slots)))
    assert (found.ledger.missing, other.ledger.missing) == (4, 0)


@pytest.mark.parametrize("executor", [Without, WithoutAtOnce])
def test_a_model_of_a_bank_stays_where_its_chain_broke_off(executor: type[Without]) -> None:
    """The mean of two models, one of which stayed, and that with the other one: together what
    neither staying gives, and the start once more."""
    exp = experiment("fedsam(0.1)", topology=BANK, min_replies=1)
    start = prepare(exp).job.learner.initial().params
    one, other, both = (train(exp, executor=executor(absent), until=1) for absent in ([3], [1], []))
    assert one.ledger.missing == other.ledger.missing == 1
    assert one.model is not None
    assert other.model is not None
    assert both.model is not None
    torch.testing.assert_close(
        one.model.params + other.model.params, both.model.params + start, rtol=0, atol=1e-6
    )
    assert (one.model.params - start).abs().max() > 1e-3


@pytest.mark.parametrize(
    "executor", [Without([0, 1, 2, 3, 4], since=1), WithoutAtOnce([0, 1, 2, 3, 4], since=1)]
)
@pytest.mark.parametrize("topology", [BANK, "clusters(2)"])
def test_no_client_at_all(topology: str, executor: Any) -> None:
    with pytest.raises(
        FedflatError,
        match=r"round 2: 0 replies came that could be used, and min_replies asks for 1",
    ):
        train(experiment("fedavg", topology=topology, min_replies=1), executor=executor)


def test_without_leave_to_miss_anybody_it_ends_at_once() -> None:
    with pytest.raises(FedflatError, match=r"round 1: client 3 .*set min_replies"):
        train(
            experiment("fedavg", topology="clusters(2)", sampler=ClientSampler(clients=5)),
            executor=Without([3]),
        )
