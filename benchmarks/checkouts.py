"""The time of the same runs in two checkouts, in turn: what a redesign costs.

    python benchmarks/checkouts.py OLD NEW                # folders of two checkouts, e.g. of `git worktree add`
    python benchmarks/checkouts.py OLD NEW --repeats 9 --only cnn

Both are alive together, each in a process of one thread, and work in turn, the first of a repeat by
lot. Seconds of processor time of whole runs, opening of the data and evaluation included; medians
of ratios new to old within a repeat, with the smallest and the largest. Only what is public in both
is used.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()


def _images() -> Any:
    import torch

    import fedflat

    rng = torch.Generator().manual_seed(0)
    x, y = (
        torch.randint(256, (2000, 3, 32, 32), dtype=torch.uint8, generator=rng),
        torch.arange(2000) % 10,
    )
    return fedflat.tensors(x, y, x[:100], y[:100], clients=20, seed=0)


def _run(method: str, on: Any, **settings: Any) -> None:
    import fedflat

    fedflat.run(
        method,
        on=on,
        quiet=True,
        **{"threads": 1, "executor": "in-process", "eval_every": 10**6, **settings},
    )


RUNS: dict[str, Callable[[], None]] = {
    "cnn, FedAvg": lambda: _run("fedavg", _images(), model="cnn", rounds=2, clients_per_round=4),
    "cnn, FedGloSS": lambda: _run(
        "fedgloss", _images(), model="cnn", rounds=1, clients_per_round=4
    ),
    "mlp, FedAvg": lambda: _run(
        "fedavg", "digits(lda(0))", model="mlp", rounds=150, clients_per_round=10
    ),
    "mlp, SCAFFOLD": lambda: _run(
        "scaffold", "digits(lda(0))", model="mlp", rounds=100, clients_per_round=10
    ),
    "mlp in stacks, FedSAM": lambda: _run(
        "fedsam",
        "digits(lda(0))",
        model="mlp",
        rounds=150,
        clients_per_round=20,
        executor="stacked",
    ),
}


def serve() -> None:
    """Run what is named on each line, and say how many seconds of processor time it took."""
    for line in sys.stdin:
        begun = time.process_time()
        RUNS[line.strip()]()
        print(json.dumps(time.process_time() - begun), flush=True)


def main() -> int:
    """Both in turn."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    sides = {}
    for side in ("old", "new"):
        environment = {
            **os.environ,
            "PYTHONPATH": str(getattr(args, side).resolve() / "src"),
            "OMP_NUM_THREADS": "1",
        }
        sides[side] = subprocess.Popen(
            [sys.executable, "-c", f"import runpy; runpy.run_path({str(HERE)!r})['serve']()"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    for name in (name for name in RUNS if args.only in name):
        ratios = []
        for turn in range(args.repeats + 1):
            took = {}
            for side in random.sample(sorted(sides), 2):
                process = sides[side]
                assert process.stdin is not None
                assert process.stdout is not None
                print(name, file=process.stdin, flush=True)
                took[side] = float(process.stdout.readline())
            if turn:  # the first warms up
                ratios.append(took["new"] / took["old"])
        middle = statistics.median(ratios)
        print(f"{name:24} {middle:.3f} ({min(ratios):.3f} to {max(ratios):.3f})", flush=True)
    for process in sides.values():
        process.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
