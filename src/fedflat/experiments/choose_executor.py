"""The executor that `auto` selects, by what is known before the first request, and
never by a clock.

The same command on the same machine chooses the same, so it gives the same bits, stopped and
resumed or not; and all runs of a study are made alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from fedflat.client.cost_model import forward_cost
from fedflat.client.learner import Learner
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import SMALL, InProcess
from fedflat.execution.stacked import Stacked
from fedflat.execution.workers import Workers, cores, pickle_job
from fedflat.experiments.prepare import describers_of
from fedflat.experiments.run_cost import request_gradients, request_seconds
from fedflat.experiments.run_setup import RunSetup
from fedflat.server.client_selection import selected_clients

WORTH = 6.0
"""Seconds of client work below which starting processes or tracing a network does not pay."""
LONG = 0.05
"""Seconds per request below which sending it to another process costs more than it saves."""
SPREAD = 300.0
"""Seconds of client work, one client at a time, from which stacks are spread over processes: these
start in seconds, and a stack is more than ten times as fast as single clients."""
PART = 32
"""Clients of a stack from which another process pays."""
GRADIENTS = 16
"""Gradients of a request from which another process pays: for less, requests and replies take as
long as it saves (`benchmarks/stacks.py`)."""
MANY = 8
"""Clients at once from which a stack of them pays."""
LOOKED_AT = 10
"""Clients of the first round, or of all if groups are unknown, whose work is counted."""


@dataclass(frozen=True)
class RunLoad:
    """The load of a run, as far as it is known before the first request."""

    requests: int
    cohort: int
    seconds: float
    """Estimated seconds of one request with one thread, from a count of its operations."""
    small: bool
    """Whether the network is so small that most of the time is not arithmetic."""
    stackable: bool
    """Tried only where it matters, as the next: both take time."""
    unsendable: str | None
    """Why workers cannot do it, if so."""
    device: str = "cpu"
    gradients: float = 1.0
    """Number of gradients of one request."""

    @classmethod
    def of(cls, setup: RunSetup) -> RunLoad:
        """Look at everything but the clock."""
        job, topology, server = setup.job, setup.exp.topology, setup.server
        describers = describers_of(setup.exp, job)
        before = setup.fed.population * sum(one.needs_model for one in describers)
        requests, at_once = server.expected_clients(), server.parallel_clients()
        sizes = first_sizes(setup)
        bare = cls(
            before + requests,
            setup.fed.population if before > requests else at_once,
            request_seconds(setup, forward_cost(job.learner), sizes),
            job.learner.flat.layout.dim < SMALL,
            False,
            None,
            job.learner.device,
            request_gradients(setup, sizes),
        )
        fits = (
            bare.small
            and not _recurrent(job.learner)
            and not topology.has_chains
            and bare.run >= WORTH
            and (bare.cohort >= MANY or bare.cohort == 1)
        )
        return replace(
            bare,
            stackable=fits and Stacked().refusal(job, setup.fed) is None,
            unsendable=_unsendable(setup)
            if bare.seconds >= LONG or (fits and bare.spreads)
            else None,
        )

    @property
    def run(self) -> float:
        """Estimated seconds of all requests with one thread."""
        return self.seconds * self.requests

    @property
    def spreads(self) -> bool:
        """Whether stacks of this run are worth several processes."""
        return self.run >= SPREAD and self.gradients >= GRADIENTS and self.device == "cpu"


def _recurrent(learner: Learner) -> bool:
    """Whether the network has recurrent layers, which are often slower in stacks."""
    return any(isinstance(part, nn.RNNBase) for part in learner.flat.module.modules())


def first_sizes(setup: RunSetup) -> list[tuple[int, int]]:
    """Clients of the first round and their numbers of examples."""
    server, registry = setup.server, setup.registry
    first = selected_clients(server.select(0)) if server.groups_known else registry.clients
    return [(client, registry.size(client)) for client in first[:LOOKED_AT]]


def choose(loads: Sequence[RunLoad]) -> tuple[Executor, str]:
    """One executor for all runs of a study, and why in a sentence.

    A run that asks one client at a time, among others that ask several, is content with what those
    need.
    """
    cohort = max(min(load.cohort, load.requests) for load in loads)
    if cohort < 2:
        return _here(loads), "one client at a time, since no two are asked at once"
    request, run = min(load.seconds for load in loads), min(load.run for load in loads)
    each = f"a request is estimated at {_span(request)}"
    if run < WORTH:
        return InProcess(1), f"one client at a time: {each}, a whole run at {_span(run)}"
    if all(load.stackable for load in loads):
        workers = min(cores(), cohort // PART) if _spread(loads) else 1
        if workers < 2:
            what = "all clients of a round in one stack"
            return Stacked(1), f"{what}: {each}, most of it not arithmetic"
        what = f"the clients of a round in stacks, in {workers} processes"
        return Stacked(1, workers), f"{what}: {each}, most of it not arithmetic"
    if any(load.device.partition(":")[0] != "cpu" for load in loads):
        return _here(loads), "one client at a time on the device"
    if request < LONG:
        return InProcess(1), f"one client at a time: {each}, too short to be sent elsewhere"
    workers = min(cores(), cohort)
    if workers < 2:
        return _here(loads), f"one client at a time: {each}, and there is one core"
    for load in loads:
        if load.unsendable is not None:
            return _here(loads), f"one client at a time: {each}, but {load.unsendable}"
    return Workers(workers), f"{workers} clients at a time, each in a process of its own: {each}"


def _spread(loads: Sequence[RunLoad]) -> bool:
    """Whether stacks of all these runs are worth several processes, and can be sent there."""
    return all(load.spreads and load.unsendable is None for load in loads)


def _here(loads: Sequence[RunLoad]) -> InProcess:
    return InProcess(1 if all(load.small for load in loads) else torch.get_num_threads())


def _unsendable(setup: RunSetup) -> str | None:
    order = pickle_job(setup.job, setup.source)
    return order if isinstance(order, str) else None


def _span(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds:.1f} s"
