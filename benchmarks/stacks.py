"""Stacks in one process and in several: milliseconds of a round by the number of local steps.

    python benchmarks/stacks.py
    python benchmarks/stacks.py --steps 1 30 --workers 4

The workload is w3 of `workloads`. Shows from how many local steps on another process pays.
"""

from __future__ import annotations

import argparse
import contextlib
import time

from work import Window
from workloads import FOREVER, SIZES

from fedflat.execution.stacked import Stacked
from fedflat.experiments.api import experiment
from fedflat.experiments.prepare import prepare
from fedflat.experiments.progress import Progress
from fedflat.experiments.train import train

TRACED = 40
"""Rounds after which a stack has been traced."""


class Over(Exception):
    """Enough rounds."""


def round_time(executor: Stacked, steps: int, size: str, rounds: int) -> float:
    """Seconds of a round."""
    work, times = SIZES[size]["w3"], list[float]()
    exp = experiment(
        work.method,
        work.on,
        model=work.model,
        rounds=FOREVER,
        eval_every=FOREVER,
        eval_last=1,
        clients_per_round=work.cohort,
        batch_size=work.batch,
        local_epochs=steps,
    )
    setup = prepare(exp)

    def on_progress(progress: Progress) -> None:
        times.append(time.perf_counter())
        if len(times) > TRACED + rounds:
            raise Over

    with contextlib.suppress(Over):
        train(setup, executor=executor, run_folder=Window(setup, False), on_progress=on_progress)
    return (times[-1] - times[TRACED]) / rounds


def main() -> None:
    """Measure and print."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--steps", type=int, nargs="*", default=[1, 3, 10, 30])
    ask.add_argument("--workers", type=int, default=2)
    ask.add_argument("--rounds", type=int, default=30)
    ask.add_argument("--size", choices=SIZES, default="full")
    given = ask.parse_args()
    for steps in given.steps:
        one, several = (
            1000 * round_time(executor, steps, given.size, given.rounds)
            for executor in (Stacked(1), Stacked(1, given.workers))
        )
        print(
            f"{steps} steps: {one:.2f} ms in one process, {several:.2f} ms in {given.workers}, "
            f"{one / several:.2f} times as fast",
            flush=True,
        )


if __name__ == "__main__":
    main()
