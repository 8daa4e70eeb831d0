"""fedflat: `train` runs the rounds, and waits between them where it tells that a round is done."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass

import in_torch
import torch
from same_work import CLASSES, LR, WEIGHT_DECAY, WORKLOADS
from turns import WARM_UP, Turns

from fedflat.data.examples import ClientData, Examples
from fedflat.data.federation import DataSpec, Federation, PartitionedFederation
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.execution.workers import Workers
from fedflat.experiments.api import experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.progress import Progress
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train

EXECUTORS = {
    "w1": Workers(2),
    "w2": Workers(2),
    "w3": Stacked(),
    "tiny": InProcess(),
    "tiny-sam": InProcess(),
}
TRACED = 40
"""Rounds after which a stack has been traced."""


@dataclass(frozen=True)
class Made(DataSpec):
    """The examples of a workload; a worker process makes its own."""

    name: str

    def open(self, seed: int) -> Federation:
        """As the workload deals them out; whatever the seed."""
        x, y = (part.flatten(0, 1) for part in in_torch.tensors(WORKLOADS[self.name]))
        examples, places = Examples(x, y, CLASSES), torch.arange(len(y))
        parts = places.split(WORKLOADS[self.name].examples)
        return PartitionedFederation(examples, ClientData(examples, places[:1]), parts)


class Window(RunFolder):
    """A book that keeps the run in sight."""

    run: RunState

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        """Remember where it is."""
        self.run = run


class Over(Exception):
    """Nobody asks for more rounds."""


def main(name: str) -> None:
    """Train until nobody asks for more."""
    workload, executor = WORKLOADS[name], EXECUTORS[name]
    exp = experiment(
        f"fedsam(rho={workload.rho})" if workload.rho else "fedavg",
        Made(name),
        rounds=10**9,
        eval_every=10**9,
        eval_last=1,
        clients_per_round=workload.cohort,
        model="cnn" if workload.images else "mlp([32])",
        batch_size=workload.batch,
        lr=LR,
        weight_decay=WEIGHT_DECAY,
    )
    warm_up = TRACED if isinstance(executor, Stacked) else WARM_UP
    setup, window, turns = (
        prepare(exp),
        Window(),
        Turns(repr(executor), "fedflat", "torch", warm_up=warm_up),
    )
    flat, before = setup.job.learner.flat, 0

    def loss() -> float:
        flat.load(window.run.model.params)
        return in_torch.probe_loss(flat.module, workload)

    def tell(tick: Progress) -> None:
        nonlocal before
        samples, before = window.run.ledger.samples - before, window.run.ledger.samples
        if not turns.round(samples, loss):
            raise Over

    with suppress(Over):
        train(setup, executor=executor, run_folder=window, on_progress=tell)


if __name__ == "__main__":
    main(sys.argv[1])
