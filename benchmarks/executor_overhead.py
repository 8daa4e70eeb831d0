"""What a request costs in a Ray actor and over the network, beside one in a worker process.

    python benchmarks/executor_overhead.py                        # three sizes, two processes each
    python benchmarks/executor_overhead.py --sizes 64 --requests 200 --repeats 5

Clients take one step on one example, so that nearly all of a request is transport: the model to the
client, the update back. Worker processes, Ray actors and clients of a deployment (processes on
loopback, with TLS and signatures) take turns, exchange by exchange, on the same requests. Printed
are medians over the exchanges: milliseconds per request, milliseconds of the driver's own CPU time
per request, and what a round takes that has one request per process. CPU time is hardly changed by
other work on the machine; wall time is, so the load is printed too.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from fedflat import Ray, Workers, experiment
from fedflat.client.training import Request
from fedflat.core.messages import Broadcast
from fedflat.data.sets.remote_clients import RemoteClients
from fedflat.deploy.executor import Deployed, start_session
from fedflat.deploy.federation_folder import make_federation
from fedflat.execution.client_pool import ClientPool
from fedflat.experiments.experiment import data_set
from fedflat.experiments.prepare import prepare

RUN = "overhead"


def exchange(pool: ClientPool, requests: list[Request]) -> tuple[float, float]:
    """Seconds of an exchange, and of the driver's CPU time in it."""
    wall, cpu = time.perf_counter(), time.process_time()
    for outcome in pool.run(requests):
        assert isinstance(outcome, tuple), outcome
    return time.perf_counter() - wall, time.process_time() - cpu


def work(on: Any, hidden: int, n: int) -> Any:
    """One step on one example."""
    model = f"mlp(hidden=[{hidden}, {hidden}])"
    settings = {"rounds": 1, "clients_per_round": n, "local_steps": 1, "batch_size": 1}
    return prepare(experiment("fedavg", on, model=model, **settings))


@contextmanager
def deployed(at: Path, on: str, hidden: int, n: int) -> Iterator[ClientPool]:
    """A pool of clients that are processes on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    names = [f"c{k}" for k in range(n)]
    folder = make_federation(at / "federation", "127.0.0.1", port, names, days=2, tls=True)
    executor = Deployed(str(folder.path), run=RUN, least=n)
    session = start_session(executor, 0, lambda text: None)
    words = [sys.executable, "-m", "fedflat", "deploy", "join", "--quiet", "--data", on]
    clients = [
        subprocess.Popen(
            [*words, str(folder.path / "participants" / f"{name}.join"), "--part", str(part)],
            stdin=subprocess.PIPE,
            env=os.environ | {"FEDFLAT_WATCHED": "1"},
        )
        for part, name in enumerate(names)
    ]
    try:
        session.least = n
        session.wait_until(lambda: len(session.online()) == n, "here")
        session.begin(names)
        session.write_clients()
        setup = work(RemoteClients(str(folder.path), RUN, data_set(on)), hidden, n)
        with executor.open(setup.job, setup.fed, setup.source) as pool:
            yield pool
    finally:
        session.close()
        for client in clients:
            client.kill()
            client.wait()


def measure(hidden: int, n: int, count: int, repeats: int) -> Iterator[str]:
    """One line for each pool."""
    on = f"digits(iid(), clients={n})"
    setup = work(on, hidden, n)
    model = setup.job.learner.initial()
    executors = {"workers": Workers(n), "ray": Ray(address="local", actors=n)}
    with ExitStack() as stack:
        pools = {
            name: stack.enter_context(one.open(setup.job, setup.fed, setup.source))
            for name, one in executors.items()
        }
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pools["deployed"] = stack.enter_context(deployed(place, on, hidden, n))
        found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in pools}
        for repeat in range(repeats + 1):
            for name, pool in pools.items():
                broadcast = Broadcast(repeat, model.params, model.buffers, 0.1)
                requests = [Request(k % n, broadcast, {}, f"{repeat}/{k}") for k in range(count)]
                wall, cpu = exchange(pool, requests)
                broadcast = Broadcast(repeat, model.params, model.buffers, 0.2)
                requests = [Request(k, broadcast, {}, f"{repeat}/r/{k}") for k in range(n)]
                short, _ = exchange(pool, requests)
                if repeat:  # the first one warms up
                    found[name].append((wall / count, cpu / count, short))
    for name, values in found.items():
        wall, cpu, short = (1000 * median(column) for column in zip(*values, strict=True))
        yield (
            f"{name:<9}{len(model.params):>12,} parameters{wall:>10.2f} ms a request"
            f"{cpu:>10.2f} ms CPU of the driver{short:>10.2f} ms a round of {n}"
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
