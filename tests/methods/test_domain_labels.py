"""Domains by k-means, separate models of known domains, and IFCA."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedflat.client.piece import EvalModel
from fedflat.client.training import Request, run_client
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast, Replies
from fedflat.data.federation import owners_of_tests
from fedflat.errors import SettingError
from fedflat.execution.client_states import ClientStates
from fedflat.execution.in_process import InProcess
from fedflat.execution.workers import Workers
from fedflat.experiments.descriptions import collect_descriptions
from fedflat.experiments.eval_models import eval_models_of
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.job_spec import Loopback
from fedflat.experiments.prepare import describers_of, prepare
from fedflat.experiments.progress import Progress
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.run_folder import DiskRunFolder, RunFolder
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.train import train
from fedflat.methods.domain_models import per_domain
from fedflat.methods.fedcg import ClientBranches
from fedflat.methods.ifca import BestModel
from fedflat.models.domain_branches import DomainModels
from fedflat.registry.specs import parse
from fedflat.server.client_selection import ClientSampler
from fedflat.server.step import aggregate, server_step

ON = "transformed(digits(iid(), clients=6, split=0.8, pool=True), ink=2)"
KMEANS = "fedcg(domains=2, labels='kmeans', epochs=3, weight=0.5)"


def experiment(text: str, on: str = ON, **more: Any) -> Experiment:
    settings: dict[str, Any] = {
        "method": parse(text, "method"),
        "on": parse(on, "data set"),
        "model": parse("mlp([8])", "model"),
        "rounds": 2,
        "sampler": ClientSampler(clients=3),
    }
    return Experiment(**settings | more)


def described(exp: Experiment) -> RunSetup:
    setup = prepare(exp)
    return collect_descriptions(setup, RunFolder(), InProcess(1), lambda exp, place: {})


def descriptions(setup: RunSetup) -> Sequence[Tensor]:
    (describer,) = describers_of(setup.exp, setup.job)
    return setup.server.population.descriptions[describer]


def test_kmeans_divides_clients_by_models_that_each_trained_alone() -> None:
    """Negatives train other models, so that k-means finds who has which."""
    setup = described(experiment(KMEANS))
    found = setup.job.shared["fedcg"]["domains"]
    known = [setup.fed.domain(client) for client in range(6)]
    pairs = {(int(one), domain) for one, domain in zip(found, known, strict=True)}
    assert len(pairs) == 2
    vectors = descriptions(setup)
    plain = setup.job.learner.plain.initial().params
    assert all(vector.shape == plain.shape for vector in vectors)
    assert not torch.equal(vectors[0], vectors[1])


def test_a_clients_own_model_is_fedavg_s_of_one_client() -> None:
    """The description is the model of a run in which the client trains alone."""
    exp = experiment(KMEANS)
    setup = described(exp)
    vector = descriptions(setup)[2]
    first = setup.job.learner.plain.initial()
    assert torch.equal(first.params, prepare(experiment("fedavg()")).job.learner.initial().params)
    gap = torch.linalg.vector_norm(vector - first.params)
    assert 0.05 < gap < 10


def test_test_images_get_the_branches_of_their_client() -> None:
    setup = described(experiment(KMEANS))
    owners = owners_of_tests(setup.fed)
    assert owners is not None
    found = setup.job.shared["fedcg"]["domains"]
    forms = eval_models_of(setup.job, setup.registry, setup.fed)
    assert forms is not None
    models = forms(ClientStates())
    model = setup.job.learner.initial()
    parts = models.parts(setup.fed.test, model)
    assert sorted(torch.cat([part.indices for part in parts]).tolist()) == list(
        range(len(setup.fed.test))
    )
    for part in parts:
        domain = int(part.eval_model.model.buffers[-1])
        assert set(found[owners[part.indices]].tolist()) == {domain}
        images = setup.fed.test.batch(part.indices[:3], torch.float32).inputs
        flat = setup.job.learner.flat
        flat.load(part.eval_model.model.params)
        flat.buffers = part.eval_model.model.buffers
        given = torch.full((3,), domain)
        assert torch.equal(flat.forward(images), flat.forward(images, given))
    state = models.client_state(4)["fedcg"]
    assert int(state["domain"]) == int(found[4])


def test_kmeans_stopped_and_resumed_is_bit_for_bit(tmp_path: Path) -> None:
    exp = experiment(KMEANS, rounds=4)

    def go(run_folder: DiskRunFolder, stop: int | None = None) -> Result:
        def on_progress(progress: Progress) -> None:
            if progress.round == stop:
                raise KeyboardInterrupt

        with closing(run_folder):
            return train(exp, run_folder=run_folder, executor=InProcess(1), on_progress=on_progress)

    whole = go(DiskRunFolder.create(tmp_path / "whole", exp.texts(), {}, pause=math.inf))
    with pytest.raises(KeyboardInterrupt):
        go(DiskRunFolder.create(tmp_path / "cut", exp.texts(), {}, pause=math.inf), stop=2)
    resumed = go(DiskRunFolder.open(tmp_path / "cut", pause=math.inf))
    assert whole.model is not None
    assert resumed.model is not None
    assert torch.equal(whole.model.params, resumed.model.params)
    assert torch.equal(whole.model.buffers, resumed.model.buffers)
    assert whole.rows[-1]["accuracy"] == resumed.rows[-1]["accuracy"]


def test_kmeans_through_the_wire_gives_the_same_bits() -> None:
    here, there = (train(experiment(KMEANS), executor=one) for one in (InProcess(1), Loopback()))
    assert here.model is not None
    assert there.model is not None
    assert torch.equal(here.model.params, there.model.params)
    assert torch.equal(here.model.buffers, there.model.buffers)


@pytest.mark.slow
def test_kmeans_in_worker_processes_gives_the_same_bits() -> None:
    here = train(experiment(KMEANS), executor=InProcess(1))
    there = train(experiment(KMEANS), executor=Workers(2))
    assert here.model is not None
    assert there.model is not None
    assert torch.equal(here.model.params, there.model.params)


def test_one_step_of_separate_models_by_hand() -> None:
    """Two clients, two networks of one linear layer, one batch each, against plain autograd."""
    exp = experiment(
        "domain_models(2)",
        "transformed(digits(iid(), clients=2, split=0.8, pool=True), ink=2, by='image')",
        model=parse("logistic()", "model"),
        sampler=ClientSampler(clients=2),
    )
    setup = prepare(exp)
    learner = setup.job.learner
    module = learner.flat.module
    assert isinstance(module, DomainModels)
    assert torch.equal(module.networks[0].fc.weight, module.networks[1].fc.weight)
    data = [setup.fed.data(client) for client in (0, 1)]
    size = min(map(len, data))
    job = replace(setup.job, local=replace(setup.job.local, batch_size=len(data[0])))
    model = learner.initial()

    def send(broadcast: Broadcast) -> Replies:
        replies = (run_client(job, Request(k, broadcast, {}), data[k])[0] for k in (0, 1))
        return aggregate(broadcast, replies, population=2, weighting="sized")

    step = server_step(
        exp.method.server, {}, send, Broadcast(0, model.params, model.buffers, 0.1), learner=learner
    )
    assert size > 10
    for domain in (0, 1):
        start = [p.detach() for p in learner.copy().module.networks[domain].parameters()]
        total, ends = 0, [torch.zeros_like(p) for p in start]
        for one in data:
            batch = one.batch(torch.arange(len(one)), torch.float32)
            images, domains = batch.inputs
            mine = domains == domain
            weight, bias = (p.clone().requires_grad_() for p in start)
            scores = nn.functional.linear(images[mine].flatten(1), weight, bias)
            loss = nn.functional.cross_entropy(scores, batch.targets[mine])
            slopes = torch.autograd.grad(loss, (weight, bias))
            count = int(mine.sum())
            total += count
            for end, slope in zip(ends, slopes, strict=True):
                end += count * (-0.1) * slope
        place = per_domain(learner.flat.layout, torch.arange(2.0)) == domain
        moved = (step.model.params - model.params)[place]
        expected = torch.cat([end.flatten() for end in ends]) / total
        assert torch.allclose(moved, expected, atol=1e-6)


def test_a_domain_that_no_client_of_the_round_holds_keeps_its_model() -> None:
    exp = experiment("domain_models(2)", rounds=1, sampler=ClientSampler(cohorts=[[0]]))
    setup = prepare(exp)
    result = train(setup, executor=InProcess(1))
    assert result.model is not None
    own = int(setup.fed.data(0).batch(torch.arange(1), torch.float32).inputs[1])
    place = per_domain(setup.job.learner.flat.layout, torch.arange(2.0))
    first = setup.job.learner.initial().params
    assert torch.equal(result.model.params[place != own], first[place != own])
    assert not torch.equal(result.model.params[place == own], first[place == own])


def test_ifca_trains_the_model_with_the_lowest_loss() -> None:
    exp = experiment("ifca(3)", rounds=1, sampler=ClientSampler(cohorts=[[1]]))
    setup = prepare(exp)
    learner, data = setup.job.learner, setup.fed.data(1)
    first = learner.initial()
    batch = data.batch(torch.arange(len(data)), torch.float32)
    with torch.no_grad():
        losses = [
            float(nn.functional.cross_entropy(network(batch.inputs), batch.targets))
            for network in learner.copy().module.networks
        ]
    best = int(np.argmin(losses))
    assert len(set(losses)) == 3
    result = train(setup, executor=InProcess(1))
    assert result.model is not None
    place = per_domain(learner.flat.layout, torch.arange(3.0))
    moved = [bool((result.model.params != first.params)[place == d].any()) for d in range(3)]
    assert moved == [d == best for d in range(3)]


def test_ifca_tests_a_domain_with_the_choice_of_most_of_its_clients() -> None:
    piece = BestModel(3)
    model = Model(torch.zeros(4), torch.tensor([-1.0]))
    states: list[dict[str, Tensor]] = [{"domain": torch.tensor([d])} for d in (2.0, 1.0, 2.0)]
    layout = prepare(experiment("ifca(3)")).job.learner.flat.layout
    assert piece.eval_model(layout, model, states).model.buffers.tolist() == [2.0]
    assert piece.eval_model(layout, model, ()) == EvalModel(model)


@pytest.mark.parametrize(
    ("text", "on", "message"),
    [
        ("fedcg(domains=7, labels='kmeans')", ON, "7 domains cannot be made of 6 clients"),
        (KMEANS, "digits(clients=6)", "belong to no client"),
        ("domain_models(3)", ON, "2 known domains"),
        ("domain_models(2) + cutout(side=2)", ON, "changes images"),
        ("ifca(0)", ON, "models"),
        ("ifca(2) + fedcg(domains=2)", ON, "both change the network"),
    ],
)
def test_what_is_refused(text: str, on: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        prepare(experiment(text, on))


def test_kmeans_has_a_piece_of_its_own() -> None:
    (piece,) = parse(KMEANS, "method").client
    assert isinstance(piece, ClientBranches)
    assert piece.epochs == 3
