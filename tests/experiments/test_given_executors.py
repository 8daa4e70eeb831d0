"""An executor given in Python: ours, or anybody's that opens a client pool."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

import fedflat as ff
from experiments.small import ON
from fedflat.client.training import ClientJob, Request, run_client
from fedflat.data.federation import Federation
from fedflat.errors import FedflatError
from fedflat.execution.client_pool import ClientPool, Executor, PoolOutcome, Source
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.execution.workers import Workers
from fedflat.experiments.execution_config import ExecutionConfig, merge_config
from fedflat.experiments.job_spec import Loopback
from fedflat.experiments.study import run_one
from plugins.printed import write_files

RUN: dict[str, Any] = {
    "on": ON,
    "rounds": 3,
    "model": "mlp(hidden=[4])",
    "clients_per_round": 3,
    "seed": 2,
}


@dataclass
class Counting:
    """An executor whose pool works here and counts its requests."""

    asked: list[int] = field(default_factory=list)

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[ClientPool]:
        yield CountingPool(job, fed, self.asked)


@dataclass
class CountingPool(ClientPool):
    job: ClientJob
    fed: Federation
    asked: list[int]
    queue: list[Request] = field(default_factory=list)

    def begin(self) -> None:
        self.queue.clear()

    def submit(self, request: Request) -> None:
        self.asked.append(request.client)
        self.queue.append(request)

    def collect(self) -> Sequence[PoolOutcome]:
        """The last one first: the order of outcomes is free."""
        request = self.queue.pop()
        return [run_client(self.job, request, self.fed.data(request.client))]


class OneByOne:
    """An executor whose pool has `run` and nothing else."""

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[OneByOne]:
        self.job, self.fed = job, fed
        yield self

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        for request in requests:
            yield run_client(self.job, request, self.fed.data(request.client))


@pytest.mark.parametrize("topology", ["star()", "chains(cut=1)", "asynchronous(buffer=2)"])
def test_a_pool_needs_only_run(topology: str) -> None:
    settings = RUN | {"topology": topology, "clients_per_round": 2}
    there = ff.run("fedsam(rho=0.1)", executor=OneByOne(), quiet=True, **settings)
    here = ff.run("fedsam(rho=0.1)", executor=Counting(), quiet=True, **settings)
    assert torch.equal(there.model.params, here.model.params)
    assert there.rows[-1]["up"] == here.rows[-1]["up"] > 0


def test_the_executor_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    executor = import_module("timed").Timed()
    there = ff.run("fedavg", executor=executor, quiet=True, **RUN)
    here = ff.run("fedavg", executor=InProcess(), quiet=True, **RUN)
    assert len(executor.seconds) == 9
    assert torch.equal(there.model.params, here.model.params)


def test_anybodys_executor_runs_and_goes_on(tmp_path: Path) -> None:
    mine, other = Counting(), Counting()
    reference = ff.run("fedavg", threads=1, quiet=True, **RUN)
    folder = tmp_path / "mine"
    exp = ff.experiment("fedavg", **RUN)
    run_one(exp, ExecutionConfig(executor=mine), folder, until=2)
    assert len(mine.asked) == 6
    assert json.loads((folder / "run.json").read_text())["how"]["executor"] is None
    with pytest.raises(
        FedflatError, match=r"executor was given in Python .* fedflat\.resume\(folder, executor="
    ):
        ff.resume(folder, quiet=True)
    [result] = ff.resume(folder, executor=other, quiet=True)
    assert len(other.asked) == 3
    assert torch.equal(result.model.params, reference.model.params)


@pytest.mark.parametrize(
    "executor",
    [InProcess(1), InProcess(), Workers(2), Workers(3, 2), Stacked(1), Stacked(), Loopback()],
)
def test_ours_are_written_down_by_name(executor: Executor) -> None:
    saved = ExecutionConfig(executor=executor).as_json()
    assert isinstance(saved["executor"], str)
    assert merge_config(json.loads(json.dumps(saved)), {}).make() == executor


@pytest.mark.usefixtures("warm_processes")
def test_another_executor_for_the_rest(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    exp = ff.experiment("fedavg", **RUN)
    run_one(exp, ExecutionConfig(executor="workers", workers=1), folder, until=1)
    ff.resume(folder, executor="in-process", quiet=True)
    config = json.loads((folder / "run.json").read_text())["how"]
    assert (config["executor"], config["workers"]) == ("in-process", 0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"executor": 3}, "executor must be a name, or an object with a method `open`, found 3"),
        ({"executor": "rows"}, "executor"),
        ({"executor": Stacked(), "workers": 2}, "cannot be combined with the executor"),
        ({"executor": InProcess(), "threads": 2}, "cannot be combined with the executor"),
    ],
)
def test_what_is_no_executor(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(FedflatError, match=message):
        ExecutionConfig(**wrong)
