"""Time of a round of several methods, side by side: interleaved in one process, as ratios to the first.

    python benchmarks/rounds.py --on "cifar10(lda(0), clients=100)" --model cnn fedavg "fedsam(rho=0.1)" scaffold

The row "bare PyTorch" does the same mini-batches with an nn.Module and torch.optim.SGD and nothing federated.
Medians of ``--repeats`` rounds after one to warm up, with the smallest and the largest.
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

from fedflat.engine.mail import Mail
from fedflat.engine.seeds import torch_generator
from fedflat.executors.in_process import InProcess
from fedflat.executors.memories import ClientStates
from fedflat.running.exchange import Exchange
from fedflat.running.prepare import Ready, make_ready, members
from fedflat.running.train import beginning
from fedflat.server.piece import step
from fedflat.studies.api import experiment
from fedflat.topology.topology import SERVER


class Stepper:
    """A run that is taken forward one round at a time, without evaluation and without a book."""

    def __init__(self, ready: Ready) -> None:
        self.ready = ready
        self.run = beginning(ready, ready.learner.initial(), ClientStates())

    def cohort(self, t: int) -> list[int]:
        """The clients of round ``t``."""
        return members(self.ready.asked(t))

    def round(self) -> None:
        """One round."""
        ready, run = self.ready, self.run
        with InProcess().open(ready.job, ready.fed, ready.source) as crew:
            shadows = {key: dict(notes) for key, notes in run.shadows.items()}
            chains = [(client,) for client in self.cohort(run.round)]
            exchange = Exchange(ready, crew, run.clients, shadows, run.ledger)
            mail = Mail(run.round, run.model.params, run.model.buffers, ready.exp.rate(run.round))
            new = step(ready.exp.method.server, run.desks[SERVER], exchange.along(SERVER, chains), mail)
            for shadow in ready.exp.method.shadows:
                shadow.see(shadows[shadow.key], ready.scene, run.round, run.model.params, new.model.params)
            run.clients.keep()
            run.round, run.shadows = run.round + 1, shadows
            run.models, run.desks = {SERVER: new.model}, {SERVER: new.desks}


class Bare:
    """The batches of a run in plain PyTorch."""

    def __init__(self, like: Stepper) -> None:
        self.like, self.t = like, 0
        self.module = like.ready.learner.module()
        local = like.ready.exp.local
        self.optimiser = torch.optim.SGD(self.module.parameters(), lr=local.lr, weight_decay=local.weight_decay)

    def round(self) -> None:
        """The steps of all clients of a round."""
        exp, fed = self.like.ready.exp, self.like.ready.fed
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
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("methods", nargs="*", default=["fedavg"])
    ask.add_argument("--on", default="digits(lda(0))")
    ask.add_argument("--model")
    ask.add_argument("--clients-per-round", type=int, default=5)
    ask.add_argument("--batch-size", type=int, default=64)
    ask.add_argument("--repeats", type=int, default=5)
    ask.add_argument("--threads", type=int, default=torch.get_num_threads())
    ask.add_argument("--json", help="also write the figures to this file")
    said = ask.parse_args()
    torch.set_num_threads(said.threads)
    settings = {"rounds": 10_000, "batch_size": said.batch_size, "weight_decay": 4e-4, "model": said.model}
    settings["clients_per_round"] = said.clients_per_round
    steppers = {m: Stepper(make_ready(experiment(m, said.on, **settings))) for m in said.methods}
    first = steppers[said.methods[0]]
    rounds = {name: stepper.round for name, stepper in steppers.items()} | {"bare PyTorch": Bare(first).round}
    times = measure(rounds, said.repeats)
    samples = sum(len(first.ready.fed.data(k)) for k in first.cohort(1))
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {said.threads} threads of {os.cpu_count()}")
    base = times[said.methods[0]]
    for name, seconds in times.items():
        ratios = [a / b for a, b in zip(seconds, base, strict=True)]
        speed = samples / statistics.median(seconds)
        middle, spread = statistics.median(ratios), f"({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"{name:<50} {middle:5.2f}  {spread:<16}  {speed:9,.0f} samples/s")
    for name, stepper in steppers.items():
        seen, ready = stepper.run.clients, stepper.ready
        if seen.kept:
            share = len(seen.kept) / ready.fed.population
            print(f"client memory of {name}: {seen.nbytes:,} bytes, estimated {ready.client_memory * share:,.0f}")
    if said.json:
        with open(said.json, "w") as stream:
            json.dump({"threads": said.threads, "torch": torch.__version__, "seconds": times}, stream, indent=1)


if __name__ == "__main__":
    main()
