"""FedCG agrees with its literal twin to 1e-10 in float64, over rounds with partial
participation."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedflat.client.local import LocalTraining
from fedflat.core.schedules import Steps
from fedflat.data.domains import Domains
from fedflat.data.examples import ClientData, Examples
from fedflat.data.federation import DataSpec, PartitionedFederation
from fedflat.execution.in_process import InProcess
from fedflat.experiments.experiment import EvaluationSchedule, Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from fedflat.methods.fedcg import DomainServer
from fedflat.models.domain_graph import graph_slice
from fedflat.registry.specs import parse
from fedflat.server.client_selection import ClientSampler
from literal import fedcg
from literal.problem import Plan, Problem, random_plan

FEATURES, WIDTH, CLASSES, DOMAINS = 3, 4, 3, 3
SIZES = (4, 7, 5, 6)
NAMES = {
    "network.0.weight": "W1",
    "network.0.bias": "b1",
    "network.2.layer.weight": "W2",
    "network.2.layer.bias": "b2",
    "network.2.branches": "V",
    "network.2.projection": "P",
    "network.2.weight": "lam",
    "student.fc.weight": "S",
    "student.fc.bias": "s",
}


class RecordingRunFolder(RunFolder):
    """Keeps the models, buffers and teachers of every round."""

    def __init__(self) -> None:
        super().__init__()
        self.models: list[torch.Tensor] = []
        self.buffers: list[torch.Tensor] = []
        self.teachers: list[torch.Tensor | None] = []

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        if not force:
            self.models.append(run.models["server"].params)
            self.buffers.append(run.models["server"].buffers)
            self.teachers.append(run.server["server"].get("fedcg", {}).get("teacher"))


class Given(DataSpec):
    """Clients with images in R^3 whose domains are known."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.x = [rng.normal(size=(n, FEATURES)) for n in SIZES]
        self.y = [rng.integers(CLASSES, size=n) for n in SIZES]
        self.d = [rng.integers(DOMAINS, size=n) for n in SIZES]
        self.d[0][:DOMAINS] = range(DOMAINS)

    def open(self, seed: int) -> PartitionedFederation:
        known = Domains(("kind",), tuple((str(d),) for d in np.concatenate(self.d)))
        every = Examples(
            torch.from_numpy(np.concatenate(self.x)),
            torch.from_numpy(np.concatenate(self.y)),
            CLASSES,
            domains=known,
        )
        ends = np.cumsum((0, *SIZES))
        parts = [torch.arange(a, b) for a, b in pairwise(ends)]
        return PartitionedFederation(every, ClientData(every, parts[0]), parts)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.Tanh(), nn.Linear(WIDTH, CLASSES))


def planned(data: Given, rounds: int = 5) -> Plan:
    whom = Problem(
        [np.zeros((n, 1, 1)) for n in SIZES], [np.zeros((n, 1)) for n in SIZES], np.zeros(1)
    )
    return random_plan(3, whom, rounds, cohort=(1, 4), epochs=2, lr=0.3, momentum=0.5, wd=0.01)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"relu": False},
        {"projection": "off"},
        {"agnostic": False},
        {"adjacency": "uniform"},
        {"adjacency": "eye"},
        {"start": "rand"},
        {"start": "rand", "graph_from": 3},
        {"graph_from": 3, "beta": 0.8},
        {"every": 0},
        {"labels": "oracle"},
        {"labels": "oracle", "agnostic": False, "projection": "off", "relu": False},
    ],
    ids=str,
)
def test_fedcg(more: dict[str, Any]) -> None:
    data = Given(1)
    plan = planned(data)
    output = {"domains": DOMAINS, "weight": 0.4, "every": 2, **more}
    text = ", ".join(f"{name}={value!r}" for name, value in output.items())
    exp = Experiment(
        method=parse(f"fedcg({text}, classifier=logistic())", "method"),
        on=data,
        model=network,
        rounds=plan.rounds,
        local=LocalTraining(
            lr=Steps(tuple(range(plan.rounds)), tuple(plan.lr)),
            momentum=plan.momentum,
            weight_decay=plan.wd,
            orders=plan.orders,
        ),
        sampler=ClientSampler(cohorts=plan.cohorts),
        evaluate=EvaluationSchedule(every=plan.rounds),
        dtype="float64",
    )
    setup = prepare(exp)
    layout, first = setup.job.learner.flat.layout, setup.job.learner.initial()

    def parts(vector: torch.Tensor) -> dict[str, np.ndarray]:
        return {
            NAMES[name]: vector[place].view(shape).numpy()
            for (name, place), shape in zip(layout.slices.items(), layout.shapes, strict=True)
        }

    drawn = first.buffers[graph_slice(layout)].view(DOMAINS, DOMAINS)
    assert torch.allclose(drawn.sum(1), torch.ones(DOMAINS, dtype=drawn.dtype))
    server = exp.method.server[0]
    assert isinstance(server, DomainServer)
    teacher = server.first_teacher(setup.job.learner)["teacher"].numpy()
    cut = DOMAINS * FEATURES
    trace = fedcg.run(
        data.x,
        data.y,
        parts(first.params),
        (teacher[:cut].reshape(DOMAINS, FEATURES), teacher[cut:]),
        plan,
        every=output["every"],
        beta=output.get("beta", 0.5),
        relu=output.get("relu", True),
        projection=output.get("projection") != "off",
        agnostic=output.get("agnostic", True),
        adjacency=output.get("adjacency", "distance"),
        graph_from=output.get("graph_from", 1),
        known=data.d if "labels" in output else None,
        first=drawn.numpy().copy() if "start" in output else None,
    )
    kept = RecordingRunFolder()
    train(setup, run_folder=kept, executor=InProcess(threads=1))
    for t in range(plan.rounds):
        ours = parts(kept.models[t])
        assert ours.keys() == trace.models[t].keys()
        for name, value in ours.items():
            np.testing.assert_allclose(value, trace.models[t][name], atol=1e-10, err_msg=name)
        graph = kept.buffers[t][graph_slice(layout)].view(DOMAINS, DOMAINS)
        np.testing.assert_allclose(graph, trace.graphs[t], atol=1e-10)
        if "labels" not in output:
            found = kept.teachers[t]
            assert found is not None
            weight, bias = trace.teachers[t]
            np.testing.assert_allclose(found, [*weight.ravel(), *bias], atol=1e-10)
    options = {
        "relu": output.get("relu", True),
        "projection": output.get("projection") != "off",
        "agnostic": output.get("agnostic", True),
    }
    right = [
        fedcg.output(
            trace.models[-1],
            trace.graphs[-1],
            image,
            soft=True,
            d=int(domain) if "labels" in output else None,
            **options,
        ).argmax()
        == label
        for image, label, domain in zip(data.x[0], data.y[0], data.d[0], strict=True)
    ]
    assert kept.rows[-1]["accuracy"] == pytest.approx(np.mean(right))
    if output["every"] and "labels" not in output:
        assert any(len(set(found)) > 1 for one in trace.domains for found in one.values())
