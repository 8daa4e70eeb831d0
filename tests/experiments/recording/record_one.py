"""Local training as a plain loop with torch's optimizer, and a run with recorded metrics."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from experiments.small import data
from experiments.small import experiment as small
from fedflat.client.local import LocalTraining
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.experiments.experiment import EvaluationSchedule, Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.recording import recording_callback
from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from fedflat.models.simple import mlp
from fedflat.server.client_selection import ClientSampler, selected_clients


def experiment(method: str = "fedavg", **more: Any) -> Experiment:
    """Four rounds in float64, two epochs a request; the second and the fourth are evaluated."""
    settings: dict[str, Any] = {
        "model": mlp([3]),
        "rounds": 4,
        "dtype": "float64",
        "sampler": ClientSampler(clients=3),
        "local": LocalTraining(epochs=2, batch_size=4, lr=0.05),
        "evaluate": EvaluationSchedule(every=2, last=1),
    }
    return small(method, **{**settings, **more})


class RecordedRun(RunFolder):
    """Keeps the models, the first one too."""

    def __init__(self, exp: Experiment) -> None:
        super().__init__()
        self.models: list[Tensor] = [prepare(exp).job.learner.initial().params]

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        if not force:
            self.models.append(run.model.params)


def record(
    exp: Experiment, what: str | None, executor: Executor = InProcess(threads=1)
) -> RecordedRun:
    run_folder = RecordedRun(exp)
    train(exp, run_folder=run_folder, executor=executor, callbacks=recording_callback(what))
    return run_folder


def seen(run_folder: RunFolder, name: str) -> dict[int, Any]:
    """What was seen of one thing, by round."""
    return {row["round"]: row[name] for row in run_folder.recorded if name in row}


def examples(client: int) -> tuple[Tensor, Tensor]:
    """A client's data, in float64."""
    fed = data().open(0)
    batch = fed.data(client).batch(torch.arange(len(fed.data(client))), torch.float64)
    return batch.inputs, batch.targets


def module_at(exp: Experiment, w: Tensor) -> nn.Module:
    module = copy.deepcopy(prepare(exp).job.learner.flat.module).double()
    vector_to_parameters(w.clone(), module.parameters())
    return module


def local_train(exp: Experiment, t: int, client: int, sent: Tensor) -> list[Tensor]:
    """Where a client of FedAvg stands after each of its steps."""
    module, (x, y) = module_at(exp, sent), examples(client)
    sgd = torch.optim.SGD(module.parameters(), lr=0.05)
    points = []
    for places in exp.local.batches(exp.seed, t, client, len(x)):
        sgd.zero_grad()
        cross_entropy(module(x[places]), y[places]).backward()
        sgd.step()
        points.append(parameters_to_vector(module.parameters()).detach().clone())
    return points


def cohort(exp: Experiment, t: int) -> list[int]:
    setup = prepare(exp)
    return selected_clients(setup.server.select(t))


def rows_of(run_folder: RunFolder) -> list[Row]:
    return [
        {
            key: value
            for key, value in row.items()
            if key not in ("training", "seconds", "evaluation")
        }
        for row in run_folder.rows
    ]
