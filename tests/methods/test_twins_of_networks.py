"""Methods that look inside a network against twins with gradients derived by hand, to 1e-10: MAN,
FedBN, SiLoBN, FedCR.

One to three clients of five, unequal sizes, short last batches, two epochs, a falling rate; then
with weight decay, momentum and clipping. The noise of FedCR's features is drawn once and given to
both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedflat.client.local import LocalTraining
from fedflat.core.schedules import Steps
from fedflat.core.seeds import derive, seed_modules
from fedflat.data.sets.in_memory import clients_of
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.experiments.experiment import EvaluationSchedule, Experiment
from fedflat.experiments.train import train
from fedflat.models.wrapped import StochasticNet
from fedflat.server.client_selection import ClientSampler
from literal import fedbn, fedcr, man
from literal.network import Examples, random_examples
from literal.problem import Plan, random_plan
from methods.observers import client_models, method_of
from methods.test_against_twins import HARD, ROUNDS, same
from quadratic import Recorder

SIZES = (3, 5, 8, 6, 9)
"""With batches of three, none is left with a single example, which cannot be normalised."""
FEATURES, CLASSES, EPOCHS = 4, 3, 2
EXECUTORS = pytest.mark.parametrize(
    "executor", [InProcess(), Stacked()], ids=["one by one", "stacked"]
)
Shapes = Sequence[tuple[int, ...]]


@pytest.fixture(scope="module", params=["plain", "decay, momentum, clip"])
def hard(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {} if request.param == "plain" else {**HARD, "clip": 0.4}


def planned(seed: int, shapes: Shapes, hard: dict[str, Any]) -> tuple[Examples, Plan]:
    data = random_examples(
        seed, SIZES, FEATURES, CLASSES, sum(int(np.prod(shape)) for shape in shapes)
    )
    return data, random_plan(
        seed, data, ROUNDS, cohort=(1, 3), epochs=EPOCHS, **{"lr": 0.2, **hard}
    )


def filled(module: nn.Module, data: Examples) -> nn.Module:
    """The module in double precision, with the numbers the twin starts from."""
    nn.utils.vector_to_parameters(torch.from_numpy(data.w0), module.double().parameters())
    return module


def replayed(
    text: str, module: nn.Module, data: Examples, plan: Plan, executor: Executor = InProcess()
) -> Recorder:
    pairs = [
        (torch.from_numpy(x), torch.from_numpy(y)) for x, y in zip(data.x, data.y, strict=True)
    ]
    local = LocalTraining(
        lr=Steps(tuple(range(plan.rounds)), tuple(plan.lr)),
        weight_decay=plan.wd,
        momentum=plan.momentum,
        clip=plan.clip,
        orders=plan.orders,
    )
    exp = Experiment(
        method=method_of(text),
        on=clients_of(pairs, test=pairs[0], classes=CLASSES),
        model=filled(module, data),
        rounds=plan.rounds,
        local=local,
        sampler=ClientSampler(cohorts=plan.cohorts),
        evaluate=EvaluationSchedule(every=1),
        dtype="float64",
    )
    run_folder = Recorder()
    train(exp, run_folder=run_folder, executor=executor)
    return run_folder


def agree(run_folder: Recorder, trace: Any, plan: Plan) -> None:
    """The server's models of all rounds, and those of the clients."""
    same(run_folder.server, trace.server)
    for t, cohort in enumerate(plan.cohorts):
        for k in cohort:
            same(client_models(run_folder, t)[k], trace.local[t][k])


TANHS = [(5, FEATURES), (5,), (4, 5), (4,), (CLASSES, 4), (CLASSES,)]


def tanhs() -> nn.Module:
    return nn.Sequential(
        nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, CLASSES)
    )


@EXECUTORS
@pytest.mark.parametrize(("rho", "scale"), [(0.0, "paper"), (0.0, "repo"), (0.2, "paper")])
def test_man(hard: dict[str, Any], rho: float, scale: str, executor: Executor) -> None:
    data, plan = planned(41, TANHS, hard)
    trace = man.run(
        data, replace(plan, server_lr=0.9), shapes=TANHS, zeta=0.7, rho=rho, man_scale=scale
    )
    text = f"man(zeta=0.7, man_scale='{scale}') + sam(rho={rho}) + server_sgd(0.9) + all_clients()"
    agree(replayed(text, tanhs(), data, plan, executor), trace, plan)
    without = man.run(data, replace(plan, server_lr=0.9), shapes=TANHS, zeta=0.0, rho=rho)
    assert np.abs(trace.server[-1] - without.server[-1]).max() > 1e-3


NORMALISED = [(3, FEATURES), (3,), (3,), (3,), (CLASSES, 3), (CLASSES,)]


def normalised() -> nn.Module:
    return nn.Sequential(
        nn.Linear(FEATURES, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, CLASSES)
    )


@EXECUTORS
@pytest.mark.parametrize("private", ["fedbn", "silobn", "fedavg"])
def test_batch_normalisation(hard: dict[str, Any], private: str, executor: Executor) -> None:
    data, plan = planned(42, NORMALISED, hard)
    r0 = np.array([0.0, 0, 0, 1, 1, 1])
    trace = fedbn.run(data, replace(plan, server_lr=0.9), shapes=NORMALISED, r0=r0, private=private)
    run_folder = replayed(
        f"{private}() + server_sgd(0.9) + all_clients()", normalised(), data, plan, executor
    )
    agree(run_folder, trace, plan)
    same([run.model.buffers for run in run_folder.runs], trace.statistics)
    if private != "fedavg":
        for t, cohort in enumerate(plan.cohorts):
            for k in cohort:
                kept = run_folder.learnt[t][k]["private"]
                same(kept["statistics"], trace.local_statistics[t][k])
                same(kept["params"], trace.local[t][k][15:21] if private == "fedbn" else [])


DIM, SAMPLES = 2, 3
GAUSSIAN = [(5, FEATURES), (5,), (2 * DIM, 5), (2 * DIM,), (CLASSES, DIM), (CLASSES,)]


def gaussian() -> nn.Module:
    encoder = nn.Sequential(nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, 2 * DIM))
    return StochasticNet(encoder, nn.Linear(DIM, CLASSES), SAMPLES, SAMPLES)


def noise(plan: Plan) -> list[dict[int, list[np.ndarray]]]:
    """What the features of each step are drawn with, from the seed of each request."""
    found: list[dict[int, list[np.ndarray]]] = []
    with torch.random.fork_rng(devices=[]):
        for t, cohort in enumerate(plan.cohorts):
            found.append({})
            for k in cohort:
                seed_modules(derive(0, "module", t, k), "cpu")
                draw = partial(torch.randn, dtype=torch.float64)
                found[t][k] = [
                    draw(SAMPLES, len(places), DIM).numpy() for places in plan.orders[t][k]
                ]
    return found


def test_fedcr(hard: dict[str, Any]) -> None:
    data, plan = planned(43, GAUSSIAN, hard)
    more = {"epochs": EPOCHS, "classes": CLASSES, "beta_r": 0.05, "mix": 0.3}
    trace = fedcr.run(data, plan, shapes=GAUSSIAN, noise=noise(plan), **more)
    run_folder = replayed("fedcr(beta=0.05, mix=0.3) + all_clients()", gaussian(), data, plan)
    agree(run_folder, trace, plan)
    same([run.states["fedcr"]["mean"] for run in run_folder.runs], trace.mean)
    same([run.states["fedcr"]["variance"] for run in run_folder.runs], trace.variance)
