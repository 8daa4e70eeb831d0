"""Runs of fedflat on Ray clusters of this machine, in a process of their own: Ray keeps threads and
signal handlers that other tests must not meet.

    python ray_driver.py SCENARIO [ARGUMENT ...]

Prints one JSON object in its last line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import psutil

import fedflat as ff
from fedflat.execution.client_pool import ClientsUnreachable
from fedflat.execution.ray_cluster.connection import connected, import_ray
from fedflat.execution.ray_cluster.pool import RayPool
from fedflat.experiments.api import experiment
from fedflat.experiments.results.results import Result

SIZE = 100 * 2**20
"""Bytes of an object store: Ray's smallest is about 75 MB."""


def small(method: str, rounds: int = 3, **more: Any) -> Any:
    return experiment(
        method,
        on="digits(lda(0), clients=12)",
        model="mlp(hidden=[16])",
        rounds=rounds,
        clients_per_round=6,
        batch_size=16,
        **more,
    )


def digest(result: Result) -> str:
    assert result.model is not None
    content = (result.model.params.numpy().tobytes(), result.model.buffers.numpy().tobytes())
    return sha256(b"".join(content)).hexdigest()


@contextmanager
def cluster(nodes: int) -> Iterator[Any]:
    """A cluster of nodes with one CPU each; all its processes are ended."""
    ray = import_ray()
    from ray.cluster_utils import Cluster

    made = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": SIZE}
    )
    try:
        for _ in range(nodes - 1):
            made.add_node(num_cpus=1, object_store_memory=SIZE)
        made.wait_for_nodes()
        yield made
    finally:
        if ray.is_initialized():
            ray.shutdown()
        made.shutdown()


def stop_actor(actor: Any) -> None:
    """Let an actor answer nothing more."""
    os.kill(actor.pid, signal.SIGSTOP)


def kill_node(actor: Any) -> None:
    """Kill the node of an actor, with all its processes."""
    raylet = psutil.Process(actor.pid).parent()
    assert raylet is not None
    assert "raylet" in raylet.name()
    for process in (*raylet.children(recursive=True), raylet):
        process.kill()


class Watched(RayPool):
    """Calls a function with each request that is handed out, and with its actor."""

    on_hand_out: Callable[[Any, Any, Any], None]

    def _hand_out(self) -> None:
        before = set(self.busy)
        super()._hand_out()
        for ref in set(self.busy) - before:
            actor, task = self.busy[ref]
            type(self).on_hand_out(self, actor, task.request)


def watch(on_hand_out: Callable[[Any, Any, Any], None]) -> list[RayPool]:
    """Let runs use the pool above; the pools that were opened are appended to the list."""
    from fedflat.execution.ray_cluster import pool

    opened: list[RayPool] = []

    class Pool(Watched):
        def __post_init__(self) -> None:
            super().__post_init__()
            opened.append(self)

    Pool.on_hand_out = staticmethod(on_hand_out)
    pool.RayPool, pool.SETTLE = Pool, 600.0  # begin with all actors, on a slow machine too
    return opened


def same_bits(*texts: str) -> dict[str, Any]:
    """Digests of methods by two actors that share a CPU, and by one process."""
    executor = ff.Ray(actors=2, cpus=0.5, wait=600)
    with connected("local"):  # one cluster for all runs
        return {
            text: [
                digest(ff.train(small(text), executor=one))
                for one in (executor, ff.InProcess(threads=1))
            ]
            for text in texts
        }


def killed_node(text: str) -> dict[str, Any]:
    """Three nodes; one is killed with a request of round 2, one is added in round 3."""
    exp = small(text, rounds=6)
    seen: dict[str, Any] = {"nodes": {}}

    with cluster(3) as made:

        def on_hand_out(pool: Any, actor: Any, request: Any) -> None:
            t = request.broadcast.round
            seen["nodes"].setdefault(t, set()).add(actor.pid)
            if t == 1 and "killed" not in seen:
                raylet = psutil.Process(actor.pid).ppid()
                if raylet == made.head_node.all_processes["raylet"][0].process.pid:
                    return  # the driver is connected to it
                stop_actor(actor)
                kill_node(actor)
                seen["killed"] = actor.pid
            if t == 3 and "added" not in seen:
                made.add_node(num_cpus=1, object_store_memory=SIZE)
                made.wait_for_nodes()
                seen["added"] = True
                pool._request_actors()
                import_ray().wait(list(pool.opening), timeout=600)  # one of them has room now

        pools = watch(on_hand_out)
        result = digest(ff.train(exp, executor=ff.Ray(address=made.address, wait=600)))
    return {
        "ray": result,
        "here": digest(ff.train(exp, executor=ff.InProcess(threads=1))),
        "repeated": pools[0].repeated,
        "actors": {t: len(pids) for t, pids in seen["nodes"].items()},
        "killed in": [t for t, pids in seen["nodes"].items() if seen["killed"] in pids],
    }


def no_actor_left(folder: str) -> dict[str, Any]:
    """The only node with room for an actor is killed in round 2; the run is resumed without Ray."""
    settings: dict[str, Any] = {
        "on": "digits(lda(0), clients=12)",
        "model": "mlp(hidden=[16])",
        "rounds": 4,
        "clients_per_round": 6,
        "batch_size": 16,
    }
    message = ""
    with cluster(1) as made:
        made.add_node(num_cpus=2, object_store_memory=SIZE)
        made.wait_for_nodes()

        def on_hand_out(pool: Any, actor: Any, request: Any) -> None:
            if request.broadcast.round == 1:
                pool.options = replace(pool.options, wait=3)
                stop_actor(actor)
                kill_node(actor)

        watch(on_hand_out)
        text = f"ray(address='{made.address}', actors=1, cpus=2, wait=600)"
        try:
            ff.run("scaffold()", **settings, out=folder, executor=text, quiet=True)
        except ClientsUnreachable as error:
            message = str(error)
    return _resumed_without_ray(folder, settings, message)


def _resumed_without_ray(folder: str, settings: dict[str, Any], message: str) -> dict[str, Any]:
    """The error that ended a run, its checkpoints, and its bits when another executor resumes
    it."""
    rounds = sorted(path.stem for path in (Path(folder) / "checkpoint").glob("*.json"))
    here = ff.run("scaffold()", **settings, executor="in-process", threads=1, quiet=True)
    resumed = ff.resume(folder, executor="in_process(threads=1)", quiet=True)
    return {
        "message": message,
        "checkpoints": rounds,
        "resumed": digest(resumed[0]),
        "here": digest(here),
    }


def killed_head(folder: str) -> dict[str, Any]:
    """Head and only actor are killed in round 2; the run is resumed without Ray."""
    settings: dict[str, Any] = {
        "on": "digits(lda(0), clients=12)",
        "model": "mlp(hidden=[16])",
        "rounds": 4,
        "clients_per_round": 6,
        "batch_size": 16,
    }
    message = ""
    with cluster(1) as made:

        def on_hand_out(pool: Any, actor: Any, request: Any) -> None:
            if request.broadcast.round == 1 and pool.options.wait > 3:
                pool.options = replace(pool.options, wait=3)
                made.head_node.all_processes["gcs_server"][0].process.kill()
                stop_actor(actor)
                os.kill(actor.pid, signal.SIGKILL)

        watch(on_hand_out)
        text = f"ray(address='{made.address}', wait=600)"
        try:
            ff.run("scaffold()", **settings, out=folder, executor=text, quiet=True)
        except ClientsUnreachable as error:
            message = str(error)
    return _resumed_without_ray(folder, settings, message)


def other_version(folder: str) -> dict[str, Any]:
    """This process claims to have another version of Ray than the cluster."""
    with cluster(1) as made:
        import_ray().__version__ = "2.0.0"
        return _refused(ff.Ray(address=made.address))


def no_cluster(folder: str) -> dict[str, Any]:
    """No cluster runs where one is looked for."""
    os.environ["RAY_TMPDIR"] = folder
    return _refused(ff.Ray(address="auto"))


def missing_plugin(folder: str) -> dict[str, Any]:
    """A plugin that is there for this process and not for the nodes."""
    plugin = Path(folder) / "mine.py"
    plugin.write_text(
        "import fedflat as ff\n@ff.method\ndef mine() -> ff.Method:\n"
        '    """FedAvg."""\n    return ff.fedavg()\n'
    )
    ff.load_plugin(str(plugin))
    exp = small("mine()")
    plugin.unlink()
    with cluster(1) as made:
        return _refused(ff.Ray(address=made.address), exp)


def _refused(executor: Any, exp: Any = None) -> dict[str, Any]:
    try:
        ff.train(exp or small("fedavg()"), executor=executor)
    except ff.FedflatError as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {"error": None}


if __name__ == "__main__":
    warnings.simplefilter("error")
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
