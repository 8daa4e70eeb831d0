"""The executor `ray(...)`: clients in actors of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

from fedflat.client.training import ClientJob
from fedflat.data.federation import Federation
from fedflat.errors import LONGEST_WAIT, MOST_PROCESSES, SettingError, number, shown
from fedflat.execution.client_pool import ClientPool, Source
from fedflat.execution.main_module import REMEDY
from fedflat.execution.workers import pickle_job
from fedflat.kernels.allocator import keep_memory
from fedflat.registry.specs import TextSpec, register


@register("executor", "ray")
@dataclass(frozen=True, repr=False)
class Ray(TextSpec):
    """Clients in actors of a Ray cluster, on one or several machines.

    Results have the same bits as those of ``Workers`` with as many threads. If an actor or a node
    is lost, its requests are repeated elsewhere. Nodes that join the cluster are used.

    Args:
        address: ``"auto"`` for the running cluster of this machine, ``"host:port"`` for the head of
            another one, ``"local"`` to start one on this machine for the run.
        actors: Number of actors; 0: as many as the nodes have room for.
        threads: Threads inside an operation.
        cpus: CPUs that Ray reserves for an actor. A fraction puts several actors on one CPU.
        gpus: GPUs that Ray reserves for an actor. A fraction puts several actors on one GPU.
        wait: Seconds without any actor after which the run ends with an error.
    """

    address: str = "auto"
    actors: int = 0
    threads: int = 1
    cpus: float = 1.0
    gpus: float = 0.0
    wait: float = 60.0

    def __post_init__(self) -> None:
        if not isinstance(self.address, str) or not _is_address(self.address):
            raise SettingError(
                "ray: address must be 'auto', 'local' or the host and port of a head, such as "
                f"'10.0.0.1:6379', found {shown(self.address)}."
            )
        number("ray", "actors", self.actors, low=0, high=MOST_PROCESSES, whole=True)
        number("ray", "threads", self.threads, low=1, high=MOST_PROCESSES, whole=True)
        number("ray", "cpus", self.cpus, low=0, high=MOST_PROCESSES)
        number("ray", "gpus", self.gpus, low=0, high=MOST_PROCESSES)
        number("ray", "wait", self.wait, low=0, high=LONGEST_WAIT, open_low=True)
        if not self.cpus and not self.gpus and not self.actors:
            raise SettingError(
                "ray: actors without CPUs and GPUs fit any node without a limit. Set actors."
            )

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[ClientPool]:
        """Connect to the cluster and start the actors; end them in any case."""
        self._check(job)
        order = pickle_job(job, source)
        if isinstance(order, str):
            raise SettingError(
                f"the run cannot be sent to Ray actors: {order}. Models, losses and data given in "
                "Python must be defined at the top level of a module that they can import. "
                f"{REMEDY}"
            )
        from fedflat.execution.ray_cluster.connection import connected
        from fedflat.execution.ray_cluster.pool import ActorOptions, RayPool

        keep_memory()
        options = ActorOptions(self.actors, self.threads, self.cpus, self.gpus, self.wait)
        with connected(self.address):
            pool = RayPool(order, options)
            try:
                pool.start()
                yield pool
            finally:
                pool.close()

    def _check(self, job: ClientJob) -> None:
        if find_spec("ray") is None:
            raise SettingError(
                "the executor ray needs the package ray, which is not installed. Install it on "
                "all machines of the cluster: pip install 'fedflat[ray]'."
            )
        on_gpu = job.learner.device.partition(":")[0] == "cuda"
        if on_gpu and not self.gpus:
            raise SettingError(
                f"ray: the run uses the device {job.learner.device!r}, and Ray shows GPUs only to "
                "actors that reserve a part of one. Set gpus, such as gpus=0.5 for two actors per "
                "GPU."
            )
        if self.gpus and not on_gpu:
            raise SettingError(
                f"ray: gpus={self.gpus:g} reserves GPUs, but the run uses the device "
                f"{job.learner.device!r}. Add --device cuda, or remove gpus."
            )


def _is_address(text: str) -> bool:
    if text in ("auto", "local"):
        return True
    host, colon, port = text.rpartition(":")
    return bool(host and colon) and "/" not in host and port.isdecimal() and int(port) < 2**16
