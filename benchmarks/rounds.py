"""Time of a round of several methods, side by side: interleaved in one process, as ratios to the
first.

    python benchmarks/rounds.py --on "cifar10(lda(0), clients=100)" --model cnn fedavg "fedsam(rho=0.1)" scaffold

The row "bare PyTorch" does the same mini-batches with an nn.Module and torch.optim.SGD and nothing
federated. Medians of ``--repeats`` rounds after one to warm up, with the smallest and the largest.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable

import torch
from torch.nn.functional import cross_entropy

from fedflat.core.messages import Broadcast
from fedflat.core.seeds import torch_generator
from fedflat.execution.client_states import ClientStates
from fedflat.execution.in_process import InProcess
from fedflat.experiments.api import experiment
from fedflat.experiments.open_exchange import open_exchanges
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_cost import client_state_bytes
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.train import initial_state
from fedflat.server.client_selection import selected_clients
from fedflat.server.step import server_step
from fedflat.topologies.topology import SERVER


class Stepper:
    """A run that is taken forward one round at a time, without evaluation and without a book."""

    def __init__(self, setup: RunSetup) -> None:
        self.setup = setup
        self.run = initial_state(setup, setup.job.learner.initial(), ClientStates())

    def cohort(self, t: int) -> list[int]:
        """The clients of round ``t``."""
        return selected_clients(self.setup.server.select(t))

    def round(self) -> None:
        """One round."""
        setup, run = self.setup, self.run
        with InProcess().open(setup.job, setup.fed, setup.source) as pool:
            averages = {key: dict(notes) for key, notes in run.averages.items()}
            chains = [(client,) for client in self.cohort(run.round)]
            exchanges = open_exchanges(setup, pool)
            exchange = exchanges.open(run.round, run.clients, averages, run.ledger)
            broadcast = Broadcast(
                run.round, run.model.params, run.model.buffers, setup.exp.lr(run.round)
            )
            new = server_step(
                setup.exp.method.server,
                run.server[SERVER],
                exchange.sender(SERVER, chains),
                broadcast,
            )
            for average in setup.exp.method.averages:
                average.update(
                    averages[average.key],
                    exchanges.info,
                    run.round,
                    run.model.params,
                    new.model.params,
                )
            run.clients.commit()
            run.round, run.averages = run.round + 1, averages
            run.models, run.server = {SERVER: new.model}, {SERVER: new.state}


class Bare:
    """The batches of a run in plain PyTorch."""

    def __init__(self, like: Stepper) -> None:
        self.like, self.t = like, 0
        self.module = like.setup.job.learner.module()
        local = like.setup.exp.local
        self.optimiser = torch.optim.SGD(
            self.module.parameters(), lr=local.lr, weight_decay=local.weight_decay
        )

    def round(self) -> None:
        """The steps of all clients of a round."""
        exp, fed = self.like.setup.exp, self.like.setup.fed
        self.module.train()
        for client in self.like.cohort(self.t):
            data = fed.data(client)
            rng = torch_generator(exp.seed, "augment", self.t, client)
            for places in exp.local.batches(exp.seed, self.t, client, len(data)):
                batch = data.batch(places, torch.float32, rng)
                self.optimiser.zero_grad()
                cross_entropy(self.module(batch.inputs), batch.targets).backward()
                self.optimiser.step()
        self.t += 1


def measure(rounds: dict[str, Callable[[], None]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each, taken in turn."""
    times: dict[str, list[float]] = {name: [] for name in rounds}
    for repeat in range(repeats + 1):
        for name, go in rounds.items():
            begun = time.perf_counter()
            go()
            if repeat:
                times[name].append(time.perf_counter() - begun)
    return times


def main() -> None:
    """Measure and print."""
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("methods", nargs="*", default=["fedavg"])
    ask.add_argument("--on", default="digits(lda(0))")
    ask.add_argument("--model")
    ask.add_argument("--clients-per-round", type=int, default=5)
    ask.add_argument("--batch-size", type=int, default=64)
    ask.add_argument("--repeats", type=int, default=5)
    ask.add_argument("--threads", type=int, default=torch.get_num_threads())
    ask.add_argument("--json", help="also write the figures to this file")
    output = ask.parse_args()
    torch.set_num_threads(output.threads)
    settings = {
        "rounds": 10_000,
        "batch_size": output.batch_size,
        "weight_decay": 4e-4,
        "model": output.model,
    }
    settings["clients_per_round"] = output.clients_per_round
    steppers = {m: Stepper(prepare(experiment(m, output.on, **settings))) for m in output.methods}
    first = steppers[output.methods[0]]
    rounds = {name: stepper.round for name, stepper in steppers.items()} | {
        "bare PyTorch": Bare(first).round
    }
    times = measure(rounds, output.repeats)
    samples = sum(len(first.setup.fed.data(k)) for k in first.cohort(1))
    print(
        f"torch {torch.__version__}, Python {platform.python_version()}, {output.threads} threads of {os.cpu_count()}"
    )
    base = times[output.methods[0]]
    for name, seconds in times.items():
        ratios = [a / b for a, b in zip(seconds, base, strict=True)]
        speed = samples / statistics.median(seconds)
        middle, spread = statistics.median(ratios), f"({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"{name:<50} {middle:5.2f}  {spread:<16}  {speed:9,.0f} samples/s")
    for name, stepper in steppers.items():
        seen, setup = stepper.run.clients, stepper.setup
        if seen.by_client:
            share = len(seen.by_client) / setup.fed.population
            print(
                f"client memory of {name}: {seen.nbytes:,} bytes, estimated {client_state_bytes(setup) * share:,.0f}"
            )
    if output.json:
        with open(output.json, "w") as stream:
            json.dump(
                {"threads": output.threads, "torch": torch.__version__, "seconds": times},
                stream,
                indent=1,
            )


if __name__ == "__main__":
    main()
