"""How a run is executed: the executor, devices, recorded metrics and loggers.

The executor `auto` selects by what is known before the first request, and never by a clock. The
same command on the same machine chooses the same, so it gives the same bits, stopped and resumed or
not; and all runs of a study are made alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedflat.client.cost_model import forward_cost
from fedflat.client.learner import Learner
from fedflat.errors import (
    FedflatError,
    PrintLine,
    RunError,
    SettingError,
    nearest,
    printable,
    shown,
)
from fedflat.execution.client_pool import Executor
from fedflat.execution.devices import check_device, read_devices
from fedflat.execution.in_process import SMALL, InProcess
from fedflat.execution.main_module import refuse_while_importing
from fedflat.execution.stacked import Stacked
from fedflat.execution.workers import Workers, cores, pickle_job
from fedflat.experiments.callbacks import functions_of, names_of
from fedflat.experiments.loggers import check_installed, loggers_of
from fedflat.experiments.prepare import describers_of
from fedflat.experiments.recording import Recorder, metrics_of
from fedflat.experiments.run_cost import request_gradients, request_seconds
from fedflat.experiments.run_folder.plugins_needed import HINT
from fedflat.experiments.run_setup import RunSetup
from fedflat.registry.specs import parse, registered
from fedflat.server.client_selection import selected_clients
from fedflat.settings.execution import ExecutionSettings
from fedflat.settings.groups import AUTO

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


_REGISTERED = {"record": "none", "logger": "none", "executor": AUTO}
"""The settings whose texts may have names of plugins, and the text that goes without."""


@dataclass(frozen=True, kw_only=True)
class ExecutionConfig(ExecutionSettings):
    """The settings of execution. They change results only by the order of floating-point sums."""

    def __post_init__(self) -> None:
        refuse_while_importing()
        super().__post_init__()
        self._check_executor()
        functions_of(self.on_round_end)
        metrics_of(self.record), loggers_of(self.logger)
        check_device("run", self.device)
        if self.devices is not None:
            self._check_devices(read_devices("run", self.devices))

    def _check_devices(self, devices: Sequence[str]) -> None:
        """The server uses the first of several devices."""
        for device in devices:
            check_device("run", device)
        if self.device not in ("cpu", devices[0]):
            raise SettingError(
                f"run: device={self.device!r} and devices={self.devices!r} differ: the server uses "
                f"the first of several devices, {devices[0]}. Leave device out."
            )
        object.__setattr__(self, "device", devices[0])

    def _check_executor(self) -> None:
        if isinstance(self.executor, str):
            if self.executor.strip() != AUTO:
                executor_of(self.executor, self.workers, self.threads, self.devices)
            elif self.devices is not None:
                self.make()
            return
        if not callable(getattr(self.executor, "open", None)):
            raise SettingError(
                "run: executor must be a name, or an object with a method `open`, found "
                f"{self.executor!r}. `fedflat list executors` shows the names."
            )
        if self.workers or self.threads or self.devices is not None:
            raise SettingError(
                "run: workers, threads and devices cannot be combined with the executor "
                f"{self.executor!r}. Set them in the executor."
            )

    @property
    def undecided(self) -> bool:
        """Whether the executor is chosen by fedflat."""
        given = self.workers or self.threads or self.devices is not None
        return self.executor == AUTO and not given

    def loads(self, setup: RunSetup) -> list[RunLoad]:
        """The load of a run, if the executor is chosen by fedflat."""
        return [RunLoad.of(setup)] if self.undecided else []

    def resolved(self, loads: Sequence[RunLoad], note: PrintLine) -> ExecutionConfig:
        """Return a config with an executor chosen for all runs.

        ``note`` is called with the choice and the reason.
        """
        if not self.undecided:
            return self
        executor, why = choose(loads)
        note(f"  {why}")
        return replace(self, **executor_text(executor))

    def make(self) -> Executor:
        """The executor, once it is resolved."""
        assert not self.undecided
        if not isinstance(self.executor, str):
            return self.executor
        if self.executor.strip() == AUTO:
            name = "workers" if self.workers or self.devices is not None else "in_process"
            return executor_of(name, self.workers, self.threads, self.devices)
        return executor_of(self.executor, self.workers, self.threads, self.devices)

    def as_json(self) -> dict[str, Any]:
        """Texts and numbers from which `merge_config` makes it again; the executor is None if it
        has no text."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        plain["on_round_end"] = names_of(self.on_round_end)
        return plain if isinstance(self.executor, str) else plain | executor_text(self.executor)

    def check(self, setup: RunSetup, out: Path | None) -> None:
        """Refuse metrics and loggers that cannot be used in this run."""
        check_installed(self.logger)
        wanted = Recorder.of(setup, self.record).metrics or loggers_of(self.logger)
        if wanted and out is None:
            raise SettingError(
                "run: record and logger write into the run folder, and there is none. Add one: "
                "out='runs/mine'."
            )


def executor_of(
    text: str, workers: int = 0, threads: int | None = None, devices: str | None = None
) -> Executor:
    """The executor that a text names; the other arguments are passed to one that takes them.

    With ``devices`` there is one worker on each unless ``workers`` says more.

    >>> executor_of("in-process", threads=2), executor_of("workers(workers=3)")
    (in_process(threads=2), workers(workers=3))
    >>> executor_of("stacked", devices="cpu,cpu")
    stacked(workers=2, devices='cpu,cpu')
    """
    if devices is not None and not workers:
        workers = len(read_devices("run", devices))
    wishes = {"workers": workers, "threads": threads, "devices": devices}
    given = {name: value for name, value in wishes.items() if value}
    name = text.strip().replace("-", "_")
    if not name.isidentifier():
        if given:
            raise SettingError(
                f"run: {' and '.join(given)} cannot be combined with an executor that is written "
                f"as a call, {text!r}. Set them inside the call."
            )
        called: Executor = parse(text, "executor")
        return called
    entries = {entry.name: entry for entry in registered("executor")}
    if name not in entries:
        known = [one.replace("_", "-") for one in (AUTO, *entries)]
        raise SettingError(
            f"run: unknown executor {shown(text)}.{nearest(text, known)} Known: {', '.join(known)}."
        )
    entry = entries[name]
    for one in given:
        if one not in entry.signature.parameters:
            raise SettingError(
                f"run: the executor {text.strip()!r} has no {one}. Remove --{one} or --executor."
            )
    made: Executor = entry.make(**given)
    return made


def executor_text(executor: Executor) -> dict[str, Any]:
    """The settings that name an executor; None stands for one that cannot be written as text."""
    entry = next((one for one in registered("executor") if one.make is type(executor)), None)
    if entry is None or not is_dataclass(executor):
        return {"executor": None}
    given = {one.name: getattr(executor, one.name) for one in fields(executor)}
    plain = {name: given.pop(name) for name in ("workers", "threads", "devices") if name in given}
    if all(value is None for value in given.values()):
        return {"executor": entry.name.replace("_", "-"), **plain}
    try:
        same = parse(repr(executor), "executor") == executor
    except FedflatError:
        same = False
    return {"executor": repr(executor) if same else None}


def merge_config(saved: Mapping[str, Any], now: Mapping[str, Any]) -> ExecutionConfig:
    """Return the saved settings of execution, with the values of ``now`` that are not None in place
    of theirs."""
    new = {name: value for name, value in now.items() if value is not None}
    if "device" in new or "devices" in new:
        saved = {**saved, "device": "cpu", "devices": None}
    if "executor" in new:
        new = {"workers": 0, "threads": None, "devices": None} | new
    elif "executor" in saved and saved["executor"] is None:
        raise RunError(
            "the run's executor was given in Python and cannot be read from its folder. Resume it "
            "in Python, with that one or another: fedflat.resume(folder, executor=...)."
        )
    if "on_round_end" not in new and saved.get("on_round_end"):
        raise RunError(
            f"the run's on_round_end ({printable(saved['on_round_end'])}) was given in Python and "
            "cannot be read from its folder. Resume it in Python: fedflat.resume(folder, "
            "on_round_end=...), or on_round_end=[] to continue without it."
        )
    for name in _REGISTERED:
        if name in saved and name not in new:
            _check_registered(name, saved[name])
    return ExecutionConfig(**{**saved, **new})


def _check_registered(name: str, text: str) -> None:
    """Refuse a text of a run folder that cannot be read here."""
    given: dict[str, Any] = {name: text}
    try:
        ExecutionConfig(**given)
    except FedflatError as error:
        raise RunError(
            f"the run was begun with --{name} {shown(text)}: {error} If a plugin has it, name the "
            f"plugin again {HINT}. `--{name} {_REGISTERED[name]}` continues without it."
        ) from None
