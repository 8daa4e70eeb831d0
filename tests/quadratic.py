"""The twins' quadratics as a federation, so that a method runs on them through the whole
library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from fedflat.client.local import LocalTraining
from fedflat.composition.method import Method
from fedflat.core.flat import Model
from fedflat.core.schedules import Steps
from fedflat.data.sets.in_memory import clients_of
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.experiments.experiment import EvaluationSchedule, Experiment
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from fedflat.server.client_selection import ClientSampler
from fedflat.server.ledger import Ledger
from fedflat.server.piece import ServerState
from literal.problem import Plan, Problem


class Quadratic(nn.Module):
    """``1/2 (w - a)^T H (w - a)`` for each row ``(H, a)``; the first ``weights`` coordinates are
    called so.

    ``layers`` cuts the coordinates into parameters of these names and sizes instead, each a matrix
    of one column.
    """

    def __init__(
        self, w0: np.ndarray, weights: int | None = None, layers: Mapping[str, int] | None = None
    ) -> None:
        super().__init__()
        start = torch.from_numpy(w0).double()
        self.dim = len(w0)
        if layers is not None:
            for (name, size), part in zip(
                layers.items(), start.split(list(layers.values())), strict=True
            ):
                self.register_parameter(name, nn.Parameter(part.clone().view(size, 1)))
            return
        cut = len(w0) if weights is None else weights
        self.weight = nn.Parameter(start[:cut].clone())
        if cut < len(w0):
            self.bias = nn.Parameter(start[cut:].clone())

    def forward(self, x: Tensor) -> Tensor:
        w = torch.cat([p.view(-1) for p in self.parameters()])
        H, a = x[:, : self.dim**2].view(-1, self.dim, self.dim), x[:, self.dim**2 :]
        d = (w - a).unsqueeze(-1)
        return 0.5 * (d * (H @ d)).sum((1, 2))


def mean_value(output: Tensor, y: Tensor) -> Tensor:
    """The loss: the mean of the values."""
    return output.mean()


class Round(NamedTuple):
    """What a run with one model at the server was after a round."""

    round: int
    model: Model
    states: ServerState
    averages: dict[str, dict[str, Tensor]]
    ledger: Ledger


@dataclass
class Recorder(RunFolder):
    """A run folder that keeps a snapshot after every round."""

    runs: list[Round] = field(default_factory=list)
    learnt: list[dict[int, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        if not force:
            self.runs.append(
                Round(run.round, run.model, run.server["server"], run.averages, run.ledger)
            )
            self.learnt.append(dict(run.clients.by_client))

    @property
    def server(self) -> list[np.ndarray]:
        """The server's parameters after each round."""
        return [run.model.params.numpy() for run in self.runs]


def experiment(
    method: Method,
    problem: Problem,
    plan: Plan,
    *,
    weights: int | None = None,
    layers: Mapping[str, int] | None = None,
    batch_size: int = 64,
    **more: Any,
) -> Experiment:
    """The very run the plan says; ``batch_size`` is for what a method does besides the plan's
    steps."""
    data = []
    for H, a in zip(problem.H, problem.a, strict=True):
        rows = np.concatenate([H.reshape(len(H), -1), a], axis=1)
        data.append((torch.from_numpy(rows), torch.zeros(len(rows), dtype=torch.long)))
    return Experiment(
        method=method,
        on=clients_of(data, test=data[0], classes=1),
        model=Quadratic(problem.w0, weights, layers),
        rounds=plan.rounds,
        local=LocalTraining(
            lr=Steps(tuple(range(plan.rounds)), tuple(plan.lr)),
            weight_decay=plan.wd,
            momentum=plan.momentum,
            clip=plan.clip,
            batch_size=batch_size,
            orders=plan.orders,
        ),
        sampler=ClientSampler(cohorts=plan.cohorts),
        evaluate=EvaluationSchedule(every=1),
        dtype="float64",
        loss=mean_value,
        **more,
    )


def replay(
    method: Method, problem: Problem, plan: Plan, *, executor: Executor = InProcess(), **more: Any
) -> Recorder:
    """Run a method on the problem, step for step as planned."""
    run_folder = Recorder()
    train(experiment(method, problem, plan, **more), run_folder=run_folder, executor=executor)
    return run_folder
