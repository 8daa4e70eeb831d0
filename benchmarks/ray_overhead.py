"""What a request costs in a Ray actor beside one in a worker process, by the size of the model.

    python benchmarks/ray_overhead.py                        # three sizes, two processes each
    python benchmarks/ray_overhead.py --sizes 64 --requests 200 --repeats 5

Clients have one example and take one step, so that nearly all of a request is transport: the model
to the client, the update back. Workers and actors take turns, exchange by exchange, on the same
requests. Printed are medians over the exchanges: milliseconds per request, milliseconds of the
driver's own CPU time per request, and what an exchange takes that has no more requests than
processes. CPU time is hardly changed by other work on the machine; wall time is, so the load is
printed too.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median

import torch

from fedflat import Ray, Workers, experiment
from fedflat.client.training import Request
from fedflat.core.messages import Broadcast
from fedflat.data.sets.in_memory import clients_of
from fedflat.execution.client_pool import ClientPool
from fedflat.experiments.prepare import prepare


def exchange(pool: ClientPool, requests: list[Request]) -> tuple[float, float]:
    """Seconds of an exchange, and of the driver's CPU time in it."""
    wall, cpu = time.perf_counter(), time.process_time()
    for outcome in pool.run(requests):
        assert isinstance(outcome, tuple), outcome
    return time.perf_counter() - wall, time.process_time() - cpu


def requests_of(broadcast: Broadcast, count: int, name: str) -> list[Request]:
    """The same work for every pool."""
    return [Request(k % 8, broadcast, {}, f"{name}/{k}") for k in range(count)]


def measure(hidden: int, n: int, count: int, repeats: int) -> Iterator[str]:
    """One line for each pool."""
    rng = torch.Generator().manual_seed(0)
    data = [(torch.randn(1, 1, 8, 8, generator=rng), torch.zeros(1).long()) for _ in range(8)]
    exp = experiment(
        "fedavg",
        clients_of(data, test=data[0], classes=10),
        model=f"mlp(hidden=[{hidden}, {hidden}])",
        rounds=1,
        clients_per_round=8,
    )
    setup = prepare(exp)
    model = setup.job.learner.initial()
    executors = {"workers": Workers(n), "ray": Ray(address="local", actors=n)}
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in executors}
    with ExitStack() as stack:
        pools = {
            name: stack.enter_context(one.open(setup.job, setup.fed, setup.source))
            for name, one in executors.items()
        }
        for repeat in range(repeats + 1):
            for name, pool in pools.items():
                broadcast = Broadcast(repeat, model.params, model.buffers, 0.1)
                wall, cpu = exchange(pool, requests_of(broadcast, count, f"{repeat}"))
                broadcast = Broadcast(repeat, model.params, model.buffers, 0.1)
                short, _ = exchange(pool, requests_of(broadcast, n, f"{repeat}/short"))
                if repeat:  # the first one warms up
                    found[name].append((wall / count, cpu / count, short))
    for name, values in found.items():
        wall, cpu, short = (1000 * median(column) for column in zip(*values, strict=True))
        yield (
            f"{name:<9}{len(model.params):>12,} parameters{wall:>10.2f} ms a request"
            f"{cpu:>10.2f} ms CPU of the driver{short:>10.2f} ms an exchange of {n}"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 1024, 4096])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    for hidden in args.sizes:
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
        for line in measure(hidden, args.processes, args.requests, args.repeats):
            print(line, flush=True)


if __name__ == "__main__":
    main()
