"""Runs on the twins' quadratics with any topology, and the server's models after every round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedflat.core.flat import Model
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from fedflat.registry.specs import parse
from fedflat.server.ledger import Ledger
from literal.problem import Plan, Problem
from quadratic import experiment


@dataclass
class Spy(RunFolder):
    """A run folder that keeps the models of every slot after every round."""

    models: list[dict[str, Model]] = field(default_factory=list)
    states: list[dict[str, Any]] = field(default_factory=list)
    ledgers: list[Ledger] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        if not force:
            self.models.append(run.models)
            self.states.append(run.server)
            self.ledgers.append(run.ledger)

    def params(self, slot: str = "server") -> np.ndarray:
        """The parameters in a slot after each round."""
        return np.stack([models[slot].params.numpy() for models in self.models])


def replay(
    method: str,
    problem: Problem,
    plan: Plan,
    topology: str | None = "star()",
    *,
    executor: Executor = InProcess(threads=1),
    **more: Any,
) -> Spy:
    """A run as planned; without a topology, by that of the method."""
    run_folder = Spy()
    exp = experiment(
        parse(method, "method"),
        problem,
        plan,
        topology=topology and parse(topology, "topology"),
        **more,
    )
    train(prepare(exp), run_folder=run_folder, executor=executor)
    return run_folder
