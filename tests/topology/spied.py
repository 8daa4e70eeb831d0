"""Runs on the twins' quadratics with any topology, and the server's models after every round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedflat.engine.flat import Model
from fedflat.executors.crew import Executor
from fedflat.executors.in_process import InProcess
from fedflat.language.spelling import parse
from fedflat.running.prepare import make_ready
from fedflat.running.run_folder import RunBook
from fedflat.running.state import Ledger, Run
from fedflat.running.train import train
from literal.problem import Plan, Problem
from quadratic import experiment


@dataclass
class Spy(RunBook):
    """A book that keeps the models of every slot after every round."""

    models: list[dict[str, Model]] = field(default_factory=list)
    desks: list[dict[str, Any]] = field(default_factory=list)
    ledgers: list[Ledger] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def checkpoint(self, run: Run, *, force: bool = False) -> None:
        if not force:
            self.models.append(run.models)
            self.desks.append(run.desks)
            self.ledgers.append(run.ledger)

    def params(self, slot: str = "server") -> np.ndarray:
        """The parameters in a slot after each round."""
        return np.stack([models[slot].params.numpy() for models in self.models])


def replay(
    method: str, problem: Problem, plan: Plan, topology: str | None = "star()", *,
    executor: Executor = InProcess(threads=1),
    **more: Any,
) -> Spy:  # fmt: skip
    """A run as planned; without a topology, by that of the method."""
    book = Spy()
    exp = experiment(parse(method, "method"), problem, plan, topology=topology and parse(topology, "topology"), **more)
    train(make_ready(exp), book=book, executor=executor)
    return book
