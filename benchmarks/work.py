"""One participant of `bench`: bare PyTorch, or fedflat, on one workload.

python work.py full w1 bare 2            two threads, nothing federated
python work.py full w1 bare-last 1       one thread, images with channels last
python work.py full w1 bare-quick 1      ... and convolutions by fewer products
python work.py full w1 workers           fedflat with two workers
python work.py full w5 workers 1000000000    fedflat with so many bytes of client memory in RAM
"""

from __future__ import annotations

import sys
from contextlib import nullcontext, suppress
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from turns import WARM_UP, Turns
from workloads import SIZES, Workload

from fedflat.core.seeds import torch_generator
from fedflat.data.examples import Batch
from fedflat.execution.client_pool import Executor
from fedflat.execution.client_states import ClientStates
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.execution.workers import Workers
from fedflat.experiments.prepare import prepare
from fedflat.experiments.progress import Progress
from fedflat.experiments.run_folder.run_folder import RunFolder
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.state import RunState
from fedflat.experiments.train import initial_state, train
from fedflat.kernels.convolution import convolving
from fedflat.kernels.memory_format import channels_last
from fedflat.server.client_selection import selected_clients

EXECUTORS: dict[str, Executor] = {
    "in-process": InProcess(),
    "one-thread": InProcess(1),
    "workers": Workers(2),
    "stacked": Stacked(),
    "stacked-threads": Stacked(2),
    "stacked-parts": Stacked(1, 2),
}
RHO = 0.05
TRACED = 40
"""Rounds after which a stack has been traced."""


def bare(setup: RunSetup, threads: int, *, last: bool = False, fewer: bool = False) -> None:
    """The mini-batches of a run in plain PyTorch: one model, no clients to come back to.

    Images with channels last? Convolutions by fewer products?
    """
    torch.set_num_threads(threads)
    exp, fed = setup.exp, setup.fed
    module = setup.job.learner.module()
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01, weight_decay=4e-4)
    step = _sam if "sam" in repr(exp.method) else _sgd
    turns, t, go_on, loss = Turns(f"{threads} threads", "torch"), 0, True, torch.tensor(0.0)
    while go_on:
        samples = 0
        for client in selected_clients(setup.server.select(t)):
            data, rng = fed.data(client), torch_generator(exp.seed, "augment", t, client)
            for places in exp.local.batches(exp.seed, t, client, len(data)):
                batch = data.batch(places, torch.float32, rng)
                batch = replace(batch, inputs=channels_last(batch.inputs)) if last else batch
                with convolving() if fewer else nullcontext():
                    loss = step(module, optimiser, batch)
                samples += len(places)
        t += 1
        go_on = turns.round(samples, lambda: float(loss))  # noqa: B023 (called before the next round)


def _sgd(module: nn.Module, optimiser: torch.optim.Optimizer, batch: Batch) -> Tensor:
    optimiser.zero_grad()
    loss = cross_entropy(module(batch.inputs), batch.targets)
    loss.backward()
    optimiser.step()
    return loss.detach()


def _sam(module: nn.Module, optimiser: torch.optim.Optimizer, batch: Batch) -> Tensor:
    optimiser.zero_grad()
    cross_entropy(module(batch.inputs), batch.targets).backward()
    with torch.no_grad():
        params = list(module.parameters())
        norm = torch.linalg.vector_norm(
            torch.stack([torch.linalg.vector_norm(p.grad) for p in params])
        )
        ways = [p.grad * (RHO / (norm + 1e-12)) for p in params]
        for p, way in zip(params, ways, strict=True):
            p.add_(way)
    optimiser.zero_grad()
    loss = cross_entropy(module(batch.inputs), batch.targets)
    loss.backward()
    with torch.no_grad():
        for p, way in zip(params, ways, strict=True):
            p.sub_(way)
    optimiser.step()
    return loss.detach()


class Window(RunFolder):
    """A book that keeps the run in sight; ``full`` makes all clients remember something before the
    first round."""

    run: RunState

    def __init__(self, setup: RunSetup, full: bool) -> None:
        super().__init__()
        self.setup, self.full = setup, full

    def resume(self, clients: ClientStates) -> RunState | None:
        """The beginning."""
        model = self.setup.job.learner.initial()
        for client in range(self.setup.fed.population if self.full else 0):
            clients.stage(client, {"dual": {"sigma": torch.zeros_like(model.params)}})
            clients.commit()
        return initial_state(self.setup, model, clients)

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        """Remember where it is."""
        self.run = run


class Over(Exception):
    """Nobody asks for more rounds."""


def ours(setup: RunSetup, workload: Workload, executor: str, budget: int | None) -> None:
    """`train` runs the rounds, and waits between them where it tells that a round is done."""
    window = Window(setup, full="feddyn" in workload.method)
    turns = Turns(
        repr(EXECUTORS[executor]),
        "fedflat",
        "torch",
        warm_up=TRACED if executor.startswith("stacked") else WARM_UP,
    )
    before, last = 0, 0.0

    def tell(tick: Progress) -> None:
        nonlocal before, last
        samples, before, last = (
            window.run.ledger.samples - before,
            window.run.ledger.samples,
            tick.loss,
        )
        if not turns.round(samples, lambda: last):
            raise Over

    with suppress(Over):
        train(
            setup,
            executor=EXECUTORS[executor],
            run_folder=window,
            on_progress=tell,
            state_memory=budget,
        )


def main(size: str, name: str, who: str, number: str | None = None) -> None:
    """Take part until nobody asks for more."""
    workload = SIZES[size][name]
    setup = prepare(workload.experiment())
    if who in ("bare", "bare-last", "bare-quick"):
        bare(setup, int(number or 2), last=who != "bare", fewer=who == "bare-quick")
    else:
        ours(setup, workload, who, None if number is None else int(number))


if __name__ == "__main__":
    main(*sys.argv[1:])
