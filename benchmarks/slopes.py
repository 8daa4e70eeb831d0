"""How time grows with clients, cohort, parameters and rounds.

    python benchmarks/slopes.py                     # about three minutes on a quiet machine
    python benchmarks/slopes.py --only cohort --seconds 5

Each quantity is multiplied while the others stay the same. Prints the median milliseconds of a
round, and the slope of a straight line through the logarithms of both: 0 means that the time does not
depend on the quantity, 1 that it is proportional to it. For rounds it is the time of a whole run.

    clients      1,000 to 1,000,000 clients made on demand, 100 a round, in one stack
    cohort       10 to 160 clients a round of the same 1,000, one after the other
    stack        the same in one stack
    parameters   an MLP of 5,000 to 1,200,000 parameters, 10 clients a round, one after the other
    rounds       100 to 1,600 rounds of 20 clients in one stack, the data opened and the model built
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

from work import Window

from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.experiments.api import experiment
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.progress import Progress
from fedflat.experiments.train import train

QUANTITIES: dict[str, tuple[int, ...]] = {
    "clients": (1000, 10_000, 100_000, 1_000_000),
    "cohort": (10, 20, 40, 80, 160),
    "stack": (10, 20, 40, 80, 160),
    "parameters": (4810, 19_210, 76_810, 307_210, 1_228_810),
    "rounds": (100, 200, 400, 800, 1600),
}
LAYERS = 75
"""Parameters of the MLP for each unit of its hidden layer, which has 64 inputs and 10 outputs."""
WARM_UP = 40
"""Rounds after which everything has been traced."""
FOREVER = 10**9


class Over(Exception):
    """Enough rounds."""


def workload(quantity: str, size: int) -> tuple[Experiment, Executor]:
    """What is trained, and where."""
    stacked = quantity in ("clients", "stack", "rounds")
    clients = size if quantity == "clients" else 1000
    cohorts = {"clients": 100, "cohort": size, "stack": size, "parameters": 10, "rounds": 20}
    units = size // LAYERS if quantity == "parameters" else 32
    rounds = size if quantity == "rounds" else FOREVER
    exp = experiment(
        "fedavg",
        f"synthetic(clients={clients}, examples=20, features=64)",
        model=f"mlp([{units}])",
        rounds=rounds,
        clients_per_round=cohorts[quantity],
        batch_size=20,
        eval_every=rounds,
        eval_last=1,
    )
    return exp, Stacked(1) if stacked else InProcess(1)


def run_seconds(exp: Experiment, executor: Executor) -> float:
    """Seconds of a whole run."""
    begun = time.perf_counter()
    train(prepare(exp), executor=executor)
    return time.perf_counter() - begun


def round_seconds(exp: Experiment, executor: Executor, seconds: float) -> float:
    """The median seconds of a round, over rounds of so many seconds together."""
    setup, times = prepare(exp), list[float]()

    def on_progress(progress: Progress) -> None:
        times.append(time.perf_counter())
        if len(times) > WARM_UP + 10 and times[-1] - times[WARM_UP] > seconds:
            raise Over

    with suppress(Over):
        train(setup, executor=executor, run_folder=Window(setup, False), on_progress=on_progress)
    return statistics.median(after - before for before, after in pairwise(times[WARM_UP:]))


def slope(sizes: Sequence[int], times: Sequence[float]) -> float:
    """The slope of the least squares line through the logarithms.

    >>> round(slope([1, 10, 100], [3, 30, 300]), 9), round(slope([1, 10, 100], [3, 3, 3]), 9)
    (1.0, 0.0)
    """
    return statistics.linear_regression([*map(math.log, sizes)], [*map(math.log, times)]).slope


def main() -> None:
    """Measure and print."""
    ask = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask.add_argument("--only", nargs="*", choices=QUANTITIES, default=list(QUANTITIES))
    ask.add_argument("--seconds", type=float, default=3.0, help="of the rounds of one size")
    ask.add_argument("--sizes", type=int, help="only so many sizes of each quantity")
    given = ask.parse_args()
    for quantity in given.only:
        sizes = QUANTITIES[quantity][: given.sizes]
        times = []
        for size in sizes:
            exp, executor = workload(quantity, size)
            whole = quantity == "rounds"
            times.append(
                run_seconds(exp, executor) if whole else round_seconds(exp, executor, given.seconds)
            )
        each = ", ".join(
            f"{size:,}: {1000 * one:.2f}" for size, one in zip(sizes, times, strict=True)
        )
        print(f"{quantity}: slope {slope(sizes, times):.2f}; ms at {each}", flush=True)


if __name__ == "__main__":
    main()
