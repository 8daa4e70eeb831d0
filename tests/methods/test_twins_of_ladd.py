"""LADD's round agrees with its literal twin to 1e-10 in float64: losses, clusters, teachers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedflat.client.learner import Learner
from fedflat.client.local import LocalTraining
from fedflat.core.flat import Model
from fedflat.core.schedules import Steps
from fedflat.data.sets.in_memory import clients_of
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.workers import Workers
from fedflat.experiments.experiment import EvaluationSchedule, Experiment
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from fedflat.methods.ladd import Teaching
from fedflat.registry.specs import parse
from fedflat.server.client_selection import ClientSampler
from literal import ladd
from literal.problem import Plan, Problem, random_plan

CHANNELS, WIDTH, CLASSES, SIDE = 3, 4, 3, 4
SHAPES = [(WIDTH, CHANNELS), (WIDTH,), (CLASSES, WIDTH), (CLASSES,)]
SIZES = (3, 5, 4, 6, 2)
GROUPS = [[0, 3], [1], [2, 4]]


class RecordingRunFolder(RunFolder):
    """Keeps the models and the server states of every round."""

    def __init__(self) -> None:
        super().__init__()
        self.models: list[list[np.ndarray]] = []
        self.teachers: list[list[np.ndarray]] = []

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        if not force:
            self.models.append([run.models[slot].params.numpy() for slot in run.models])
            self.teachers.append(
                [run.server[slot]["teacher"]["teacher"].numpy() for slot in run.models]
            )


def pictures(seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(seed)
    x = [
        rng.normal(size=(n, CHANNELS, SIDE, SIDE)) + rng.normal(size=(CHANNELS, 1, 1))
        for n in SIZES
    ]
    return x, 1.5 * rng.normal(size=sum(int(np.prod(shape)) for shape in SHAPES))


def planned(seed: int, x: list[np.ndarray]) -> Plan:
    whom = Problem(
        [np.zeros((len(one), 1, 1)) for one in x],
        [np.zeros((len(one), 1)) for one in x],
        np.zeros(1),
    )
    return random_plan(seed, whom, 6, cohort=(1, 4), epochs=2, lr=0.3, momentum=0.9)


def network(w0: np.ndarray) -> nn.Module:
    module = nn.Sequential(
        nn.Conv2d(CHANNELS, WIDTH, 1), nn.Tanh(), nn.Conv2d(WIDTH, CLASSES, 1)
    ).double()
    nn.utils.vector_to_parameters(torch.from_numpy(w0), module.parameters())
    return module


def experiment(
    text: str, x: list[np.ndarray], w0: np.ndarray, plan: Plan, **more: Any
) -> Experiment:
    """Clients hold masks that are wrong everywhere; no method may use them."""
    pairs = [(torch.from_numpy(one), torch.full((len(one), SIDE, SIDE), 7)) for one in x]
    test = (pairs[0][0], torch.zeros(len(x[0]), SIDE, SIDE, dtype=torch.long))
    local = LocalTraining(
        lr=Steps(tuple(range(plan.rounds)), tuple(plan.lr)),
        momentum=plan.momentum,
        orders=plan.orders,
    )
    return Experiment(
        method=parse(text, "method"),
        on=clients_of(pairs, test=test, classes=CLASSES),
        model=network(w0),
        rounds=plan.rounds,
        local=local,
        sampler=ClientSampler(cohorts=plan.cohorts),
        evaluate=EvaluationSchedule(every=6),
        dtype="float64",
        task="segmentation()",
        **more,
    )


def replayed(exp: Experiment, executor: Executor = InProcess(threads=1)) -> RecordingRunFolder:
    run_folder = RecordingRunFolder()
    train(exp, run_folder=run_folder, executor=executor)
    return run_folder


def same(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "more",
    [{}, {"rule": "fda"}, {"mask": False}, {"kd": 0.0}, {"omega": 1, "t_start": None}],
    ids=str,
)
def test_self_training_is_one_cluster(more: dict[str, Any]) -> None:
    x, w0 = pictures(1)
    plan = planned(2, x)
    arguments = {"kd": 2.0, "omega": 2, "t_start": 4, **more}
    run_folder = replayed(
        experiment(
            f"self_training({', '.join(f'{k}={v!r}' for k, v in arguments.items())})", x, w0, plan
        )
    )
    start = np.inf if arguments["t_start"] is None else arguments["t_start"]
    everything = np.ones(len(w0), dtype=bool)
    trace = ladd.run(
        x,
        w0,
        plan,
        [[*range(5)]],
        shapes=SHAPES,
        common=everything,
        **{**arguments, "t_start": start},
    )
    same(run_folder.models, trace.models)
    same(run_folder.teachers, trace.teachers)
    assert (
        0
        < sum(trace.counted)
        < sum(SIDE**2 * len(b) for t in plan.orders for o in t.values() for b in o)
    )
    assert np.abs(trace.teachers[-1][0] - trace.models[-1][0]).max() > 1e-3 or start == np.inf


@pytest.mark.usefixtures("warm_processes")
@pytest.mark.parametrize(
    ("shared", "executor"),
    [
        *((shared, InProcess(threads=1)) for shared in ("'nothing'", "'features'", "'all'")),
        ("'features'", Workers(2)),
    ],
    ids=["nothing", "features", "all", "features, in workers"],
)
def test_clusters_with_teachers_of_their_own(shared: str, executor: Executor) -> None:
    """In some rounds a cluster has no participant: its teacher is refreshed all the same."""
    x, w0 = pictures(3)
    plan = planned(4, x)
    assert any(not set(group) & set(cohort) for group in GROUPS for cohort in plan.cohorts[1::2])
    topology = parse(f"clusters(given_groups({GROUPS}), shared={shared})", "topology")
    run_folder = replayed(
        experiment("self_training(kd=2.0, omega=2, t_start=4)", x, w0, plan, topology=topology),
        executor,
    )
    first = sum(int(np.prod(shape)) for shape in SHAPES[:2])
    common = np.arange(len(w0)) < {"'nothing'": 0, "'features'": first, "'all'": len(w0)}[shared]
    trace = ladd.run(x, w0, plan, GROUPS, shapes=SHAPES, common=common, kd=2.0, omega=2, t_start=4)
    same(run_folder.models, trace.models)
    same(run_folder.teachers, trace.teachers)


def test_a_teacher_in_numbers() -> None:
    """Refreshed every second round, a mean from the fourth on; statistics are the model's own."""
    piece, seen = Teaching(omega=2, t_start=4, first=False), []
    state = piece.after_round({}, one(99), 0, 8)
    for completed, model in enumerate([10, 8, 6, 5, 4, 3, 2, 1], start=1):
        state = piece.after_round(state, one(model), completed, 8)
        seen.append((float(state["teacher"]), float(state["teacher_buffers"])))
    assert [teacher for teacher, _ in seen] == pytest.approx([99, 8, 8, 5, 5, 4, 4, 3])
    assert [statistics for _, statistics in seen] == [-99, -8, -8, -5, -5, -3, -3, -1]
    assert int(state["averaged"]) == 3
    assert Teaching(t_start=0.5).begins(1000) == 500


def one(value: float) -> Model:
    return Model(torch.tensor([float(value)]), torch.tensor([-float(value)]))


def test_looking_elsewhere_leaves_local_training_alone() -> None:
    """The module that is trained stays in training, with its own weights and statistics."""
    net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Dropout(0.5))
    learner = Learner(net, (3, 4, 4), 4, seed=0)
    learner.flat.train()
    before = learner.flat.model()
    other = Model(before.params + 1, before.buffers + 1)
    seen = learner.output_of(other, torch.ones(2, 3, 4, 4))
    assert torch.equal(seen, learner.output_of(other, torch.ones(2, 3, 4, 4)))
    assert not torch.equal(seen, learner.output_of(before, torch.ones(2, 3, 4, 4)))
    assert learner.flat.module.training
    assert torch.equal(learner.flat.model().params, before.params)
    assert torch.equal(learner.flat.model().buffers, before.buffers)
