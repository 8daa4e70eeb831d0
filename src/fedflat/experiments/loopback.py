"""The executor `Loopback`: every job, request and reply goes through the wire format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedflat.client.state_store import StateStore
from fedflat.client.training import ClientJob
from fedflat.data.federation import Federation
from fedflat.errors import MOST_PROCESSES, number
from fedflat.execution.client_pool import Source, threads
from fedflat.execution.client_runtime import ClientRuntime
from fedflat.execution.loopback import LoopbackPool, StatefulLoopbackPool
from fedflat.execution.wire_format import JobSpec, decode, encode
from fedflat.experiments.job_spec import data_of_spec, job_of_spec, spec_of_job
from fedflat.registry.specs import TextSpec, register


@register("executor", "loopback")
@dataclass(frozen=True, repr=False)
class Loopback(TextSpec):
    """One client after the other in this process, behind the wire format.

    The clients build their module, their job and their data from text, as on another machine: use
    it to see whether a method works over a network. The results have the same bits as
    ``InProcess`` with as many threads.

    Args:
        states: A folder in which each client keeps its own states. None: the server keeps them, and
            they travel with requests and replies.
        threads: Threads inside an operation.
    """

    states: str | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        number("loopback", "threads", self.threads, low=1, high=MOST_PROCESSES, whole=True)

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[LoopbackPool]:
        """Open a pool whose clients know only what the messages contain."""
        spec = decode(encode(spec_of_job(job)))
        assert isinstance(spec, JobSpec)
        device = job.learner.device
        far_job, far_fed = job_of_spec(spec, device=device), data_of_spec(spec, device=device)
        with threads(self.threads):
            if self.states is None:
                yield LoopbackPool(ClientRuntime(far_job, far_fed.data))
            else:
                yield StatefulLoopbackPool(ClientRuntime(far_job, far_fed.data, self._store))

    def _store(self, client: int) -> StateStore:
        assert self.states is not None
        folder = Path(self.states)
        folder.mkdir(parents=True, exist_ok=True)
        return StateStore(folder / f"client-{client}")
