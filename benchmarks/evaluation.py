"""Evaluation on the test set by worker processes, beside the main process with all its threads, and
its share of a run. Also how long workers wait in both: more than that could not be gained if rounds and
evaluations overlapped.

    python benchmarks/evaluation.py
    python benchmarks/evaluation.py --model resnet20 --examples 2000 --repeats 3
    python benchmarks/evaluation.py --batches

The clients are those of w1 of `workloads`, and the test set has as many images as CIFAR-10's. In each
repeat the server's model is evaluated by both, in turn, after a round of training. The share is that
of the evaluations of a run of so many rounds, by the default schedule. ``--batches`` prints the speed
of the main process with one thread by the size of the batch instead.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from workloads import FOREVER, IMAGES, Noise

from fedflat.client.evaluate import BATCH, Forward, forward_here
from fedflat.client.training import Request
from fedflat.core.messages import Broadcast
from fedflat.data.examples import ClientData, Examples
from fedflat.execution.client_pool import threads
from fedflat.execution.workers import WorkerPool, Workers, cores
from fedflat.experiments.api import experiment
from fedflat.experiments.evaluation_schedule import EvaluationSchedule
from fedflat.experiments.evaluator import score
from fedflat.experiments.prepare import prepare
from fedflat.experiments.run_cost import RunCost
from fedflat.experiments.run_setup import RunSetup
from fedflat.kernels.allocator import keep_memory
from fedflat.server.client_selection import selected_clients

SIZES = (64, 128, 256, 512, 1024, 2048)
SMALL = Noise(4, 8, (3, 32, 32))


def setup_of(args: argparse.Namespace) -> RunSetup:
    """A run with a test set of noise."""
    small = args.size == "small"
    setup = prepare(
        experiment(
            "fedavg",
            SMALL if small else IMAGES,
            model=args.model,
            rounds=FOREVER,
            eval_every=FOREVER,
            eval_last=1,
            clients_per_round=2 if small else 10,
            batch_size=64,
            lr=0.01,
        )
    )
    rng = torch.Generator().manual_seed(1)
    images = torch.randint(256, (args.examples, 3, 32, 32), generator=rng, dtype=torch.uint8)
    given = setup.fed.test.examples
    assert isinstance(given, Examples)
    examples = replace(given, inputs=images, targets=torch.arange(args.examples) % 10)
    test = ClientData(examples, torch.arange(args.examples))
    return replace(setup, fed=replace(setup.fed, test=test))  # type: ignore[type-var]


class Waiting(threading.Thread):
    """Looks every millisecond which share of the workers has nothing to do."""

    def __init__(self, pool: WorkerPool) -> None:
        super().__init__(daemon=True)
        self.pool, self.done = pool, threading.Event()
        self.seen: list[float] = []

    def run(self) -> None:
        """Look until it is over."""
        while not self.done.wait(0.001):
            self.seen.append(len(self.pool.idle) / self.pool.n)

    @classmethod
    def during(cls, pool: WorkerPool, work: Callable[[], object]) -> tuple[float, float]:
        """Seconds of some work, and the seconds that a worker waits on average."""
        watcher, begun = cls(pool), time.perf_counter()
        watcher.start()
        work()
        seconds = time.perf_counter() - begun
        watcher.done.set()
        watcher.join()
        return seconds, seconds * statistics.mean(watcher.seen or [0.0])


def shares(setup: RunSetup, args: argparse.Namespace) -> None:
    """Train a round and evaluate by both, in turn."""
    times: dict[str, list[float]] = {"round": [], "here": [], "workers": []}
    waiting: dict[str, list[float]] = {"round": [], "workers": []}
    learner, lr = setup.job.learner, 0.01
    model = learner.initial()
    clients = selected_clients(setup.server.select(0))
    scores: dict[str, Any] = {}
    with Workers(args.workers).open(setup.job, setup.fed, setup.source) as pool:
        assert isinstance(pool, WorkerPool)
        ways: dict[str, Forward] = {"here": forward_here, "workers": pool.forward}
        for repeat in range(args.repeats + 1):
            broadcast = Broadcast(0, model.params, model.buffers, lr)
            requests = [Request(k, broadcast, {}, f"{repeat}/{k}") for k in clients]
            spent = {"round": Waiting.during(pool, lambda: list(pool.run(requests)))}  # noqa: B023
            for name, forward in ways.items():

                def evaluate() -> None:
                    scores[name] = score(learner, setup.fed, model, forward=forward)  # noqa: B023

                spent[name] = Waiting.during(pool, evaluate)
            for name, (seconds, waits) in spent.items() if repeat else ():
                times[name].append(seconds)
                if name in waiting:
                    waiting[name].append(waits)
        with threads(1):
            same = score(learner, setup.fed, model) == scores["workers"]
    print(f"scores of the workers equal those of one thread: {same}")
    faster = [a / b for a, b in zip(times["here"], times["workers"], strict=True)]
    for name, values in (*times.items(), ("workers to main process, times as fast", faster)):
        print(f"{name}: {statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})")
    for name, what in (("round", "a round"), ("workers", "an evaluation")):
        waits = [100 * one / both for one, both in zip(waiting[name], times[name], strict=True)]
        print(
            f"a worker waits in {statistics.median(waits):.1f} % ({min(waits):.1f} to "
            f"{max(waits):.1f}) of {what}"
        )
    training = args.rounds * statistics.median(times["round"])
    cost, usual = RunCost.of(setup), EvaluationSchedule.of(args.rounds, {})
    schedule = usual.affordable(args.rounds, cost.round, cost.evaluation)
    for name in ways:
        for what, one in (("as many as by default", schedule), ("after every round", None)):
            count = args.rounds if one is None else len(one.rounds(args.rounds))
            spent_in_all = count * statistics.median(times[name])
            share = spent_in_all / (training + spent_in_all)
            print(
                f"share of {args.rounds} rounds, {name}, {count} evaluations ({what}): {share:.3f}"
            )


def batches(setup: RunSetup, args: argparse.Namespace) -> None:
    """The speed of the forward passes by the size of a batch, relative to the usual size."""
    learner, data = setup.job.learner, setup.fed.test
    learner.load(learner.initial())
    least = dict.fromkeys(SIZES, float("inf"))
    with threads(1):
        for _ in range(args.repeats):
            for size in SIZES:
                cuts = list(torch.arange(len(data)).split(size))
                begun = time.thread_time()
                for _ in forward_here(learner, data.batches(cuts, learner.dtype)):
                    pass
                least[size] = min(least[size], time.thread_time() - begun)
    for size in SIZES:
        print(f"batches of {size}: {least[BATCH] / least[size]:.2f} of the speed of {BATCH}")


def main() -> None:
    """Measure and print."""
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("--model", default="cnn")
    ask.add_argument("--examples", type=int, default=10_000, help="images of the test set")
    ask.add_argument("--rounds", type=int, default=100, help="rounds of the run")
    ask.add_argument("--workers", type=int, default=cores())
    ask.add_argument("--repeats", type=int, default=5)
    ask.add_argument("--size", choices=["full", "small"], default="full")
    ask.add_argument("--batches", action="store_true")
    args = ask.parse_args()
    keep_memory()
    (batches if args.batches else shares)(setup_of(args), args)


if __name__ == "__main__":
    main()
