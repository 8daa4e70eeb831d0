"""Client models on their own data and on everyone's data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import fedflat as ff
from experiments.small import experiment as small
from fedflat.analysis.local_global import LocalGlobal, client_models
from fedflat.client.local import LocalTraining
from fedflat.client.private_parameters import Private
from fedflat.client.training import Request, run_client
from fedflat.core.messages import Broadcast
from fedflat.experiments.prepare import prepare
from fedflat.experiments.train import train
from literal.problem import Plan, Problem
from quadratic import experiment

Q = Problem(
    H=(np.array([[[2.0, 0], [0, 1]]]), np.array([[[1.0, 0], [0, 4]]])),
    a=(np.array([[1.0, -1]]), np.array([[0.0, 1]])),
    w0=np.array([3.0, 2.0]),
)
PLAN = Plan(cohorts=[[0, 1]], orders=[{0: [[0], [0]], 1: [[0], [0]]}], lr=[0.1])


def test_the_toy_problem() -> None:
    """Clients' Hessians are diag(2, 1) and diag(1, 4) wherever they go; that of their mean is
    diag(1.5, 2.5)."""
    setup = prepare(experiment(ff.fedavg(), Q, PLAN))
    both = LocalGlobal(
        setup=setup,
        round=0,
        models=client_models(setup, setup.job.learner.initial(), 0, [0, 1]),
    )
    found = both.result(list(both.rows()))
    assert [row["client"] for row in both.rows(known=[0])] == [1]
    assert [row["client"] for row in found["clients"]] == [0, 1]
    assert [row["local"] for row in found["clients"]] == pytest.approx([2, 4])
    assert [row["global"] for row in found["clients"]] == pytest.approx([2.5, 2.5])
    assert (found["local"], found["global"]) == (pytest.approx(3), pytest.approx(2.5))
    assert (found["examples"], found["of"], found["round"]) == (2, 2, 0)


def test_models_at_the_end_of_the_request() -> None:
    """Two steps of 0.1: the distance to a_k shrinks by (1 - 0.1 h) twice in each coordinate."""
    setup = prepare(experiment(ff.fedavg(), Q, PLAN))
    models = client_models(setup, setup.job.learner.initial(), 0, [0, 1])
    assert models[0].params.tolist() == pytest.approx([1 + 2 * 0.8**2, -1 + 3 * 0.9**2])
    assert models[1].params.tolist() == pytest.approx([3 * 0.9**2, 1 + 0.6**2])


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 3))


@pytest.mark.parametrize(("text", "where"), [("fedbn", "bn"), ("silobn", "bn_statistics")])
def test_what_a_client_keeps_to_itself_is_in_its_model(text: str, where: str) -> None:
    """Its own scales and statistics, not those the server sent and gets back."""
    exp = replace(
        small(text), model=normalised, local=LocalTraining(batch_size=3, lr=0.1, drop_last=True)
    )
    setup = prepare(exp)
    model, layout, private = (
        setup.job.learner.initial(),
        setup.job.learner.flat.layout,
        Private(where),
    )
    for client, own in client_models(setup, model, 0, [0, 3]).items():
        request = Request(client, Broadcast(0, model.params, model.buffers, 0.1), {})
        reply, memory = run_client(setup.job, request, setup.fed.data(client))
        mask, statistics = private.mask(layout), private.statistics(layout)
        assert torch.equal(own.params[mask], memory["private"]["params"])
        assert torch.equal(own.buffers[statistics], memory["private"]["statistics"])
        torch.testing.assert_close(own.params[~mask], (model.params - reply.delta)[~mask])
        assert not torch.equal(own.buffers, model.buffers)
        assert torch.equal(reply.buffers, model.buffers)


METHODS = [
    "fedavg",
    "scaffold",
    "mime",
    "fedgloss(rho_s=0.1)",
    "naive_fedgloss(rho_s=0.1)",
    "fedsmoo",
]


@pytest.mark.parametrize("text", METHODS)
def test_their_mean_is_what_the_run_makes_of_them(text: str) -> None:
    """Also for methods whose server sends more than a model, asks twice, or steps elsewhere."""
    exp = ff.experiment(
        text,
        on="digits(iid(), clients=4)",
        model="logistic",
        rounds=1,
        clients_per_round=4,
        local_epochs=1,
        lr=0.05,
    )
    setup = prepare(exp)
    models = client_models(setup, setup.job.learner.initial(), 0, [0, 1, 2, 3])
    assert sorted(models) == [0, 1, 2, 3]
    if text in ("fedavg", "scaffold", "mime"):
        sizes = torch.tensor(setup.fed.sizes(), dtype=torch.float32)
        weights = sizes / sizes.sum() if text != "scaffold" else torch.full((4,), 0.25)
        mean = sum(w * models[k].params for k, w in enumerate(weights))
        torch.testing.assert_close(mean, train(exp).model.params, rtol=1e-4, atol=1e-6)


def test_a_part_of_all_clients_data() -> None:
    exp = ff.experiment(
        "fedavg", on="digits(lda(0), clients=10)", model="logistic", rounds=1, clients_per_round=2
    )
    setup = prepare(exp)
    messages: list[str] = []
    models = client_models(setup, setup.job.learner.initial(), 0, [3])
    both = LocalGlobal(setup=setup, round=0, models=models, examples=50)
    found = both.result(
        list(both.rows(on_progress=lambda done, total, what: messages.append(what)))
    )
    assert found["examples"] == 50 < found["of"]
    assert found["clients"][0]["global"] > 0
    assert list(dict.fromkeys(messages)) == ["client 3, own data", "client 3, all data"]
