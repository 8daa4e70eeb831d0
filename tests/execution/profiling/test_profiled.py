"""Runs with a profile: the same numbers, and the time is found where it was spent."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn

from experiments.small import data, experiment, final, rows, stop_at, timeless
from fedflat.cli import main
from fedflat.client.sharpness import Sam
from fedflat.client.training import Request
from fedflat.core.messages import Broadcast
from fedflat.data.examples import ClientData
from fedflat.execution.profiling import worker_samples
from fedflat.execution.profiling.categories import START
from fedflat.execution.profiling.report import Profile, shares
from fedflat.execution.profiling.worker_samples import collecting_samples
from fedflat.execution.workers import Workers
from fedflat.experiments.api import compare
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.prepare import prepare
from fedflat.experiments.study import Reporter, run_one
from fedflat.server.client_selection import ClientSampler as Cohorts
from fedflat.server.step import _Mean
from warm_python import warm_starts

FILES = {"profile.json", "profile.speedscope.json"}


class Slow(nn.Module):
    """A linear model that takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        time.sleep(0.015 if self.training else 0.04)
        return self.fc(x)


@dataclass
class Done:
    """A run with a profile, and the same without."""

    profile: Profile
    folder: Path
    plain: Path


@pytest.fixture(scope="module", params=["in-process", "workers", "stacked"])
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Done:
    exp = experiment("fedsam(rho=0.05)", model=Slow(), rounds=3)
    workers = 2 if request.param == "workers" else 0
    config = ExecutionConfig(executor=request.param, workers=workers, threads=1)
    place, got = tmp_path_factory.mktemp("runs"), []
    with warm_starts():
        run_one(exp, config, place / "profiled", profile=got.append)
    reference = (
        config if request.param == "stacked" else ExecutionConfig(executor="in-process", threads=1)
    )
    run_one(exp, reference, place / "plain")
    return Done(got[0], place / "profiled", place / "plain")


@pytest.mark.slow
def test_the_numbers_are_the_same(done: Done) -> None:
    assert final(done.folder) == final(done.plain)
    assert timeless(rows(done.folder)) == timeless(rows(done.plain))


def test_only_the_profile_is_added(done: Done) -> None:
    assert {path.name for path in done.folder.iterdir()} - {
        path.name for path in done.plain.iterdir()
    } == FILES
    config = json.loads((done.folder / "run.json").read_text())["how"]
    assert "profile" not in config


@pytest.mark.slow  # needs a quiet machine: looks that come late tell a stack too much or too little
def test_a_model_that_sleeps_is_most_of_it(done: Done) -> None:
    there = done.profile.worker_categories if done.profile.workers else done.profile.categories
    requests = {category: seconds for category, seconds in there.items() if category != "waiting"}
    assert shares(requests)["local gradient"] > 0.5
    assert shares(done.profile.categories)["other"] < 0.2


def test_where_the_time_went(done: Done) -> None:
    """Time in requests is counted where clients run."""
    assert done.profile.categories["evaluation"] > 0
    assert done.profile.rounds == 3
    if done.profile.workers:
        assert len(done.profile.workers) == 2
        assert done.profile.worker_categories["local gradient"] > 0
        assert done.profile.categories["local gradient"] == 0
        assert done.profile.categories["waiting"] > 0
        assert done.profile.categories[START] > 0
    else:
        assert done.profile.categories["local gradient"] > 0


def test_the_files_say_the_same(done: Done) -> None:
    found = json.loads((done.folder / "profile.json").read_text())
    assert found["here"]["seconds"] == done.profile.categories
    scope = json.loads((done.folder / "profile.speedscope.json").read_text())
    assert len(scope["profiles"]) == 1 + len(done.profile.workers)
    for one, samples in zip(scope["profiles"], done.profile.processes.values(), strict=True):
        assert len(one["samples"]) == len(one["weights"]) == len(samples.stacks)
        assert (
            sum(one["weights"]) == pytest.approx(one["endValue"]) == pytest.approx(samples.seconds)
        )
        assert all(
            0 <= place < len(scope["shared"]["frames"])
            for stack in one["samples"]
            for place in stack
        )
    training = scope["profiles"][1:] or scope["profiles"]
    places = {place for one in training for stack in one["samples"] for place in stack}
    assert any(
        "FlatModule.gradient" in scope["shared"]["frames"][place]["name"] for place in places
    )


def slowed(method: Callable[..., Any]) -> Callable[..., Any]:
    def slow(*given: Any, **named: Any) -> Any:
        time.sleep(0.01)
        return method(*given, **named)

    return slow


@pytest.mark.slow  # as above
@pytest.mark.parametrize(
    ("owner", "name", "category"),
    [
        (Sam, "gradient", "piece arithmetic"),
        (ClientData, "batch", "data"),
        (_Mean, "add", "aggregation"),
        (os, "fsync", "checkpoint"),
        (nn.Linear, "forward", "local gradient"),
    ],
)
def test_what_is_slow_shows(
    owner: Any, name: str, category: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(owner, name, slowed(getattr(owner, name)))
    got: list[Profile] = []
    config = ExecutionConfig(executor="in-process", threads=1)
    run_one(
        experiment("fedsam(rho=0.05)", rounds=3),
        config,
        tmp_path / "here",
        checkpoint_every=0,
        profile=got.append,
    )
    found = shares(got[0].categories)
    assert max(found, key=found.__getitem__) == category


def test_ctrl_c_leaves_the_profile_of_what_was_done(tmp_path: Path) -> None:
    reporter = Reporter(announce=lambda exp, place, total: stop_at(2))
    got: list[Profile] = []
    with pytest.raises(KeyboardInterrupt):
        run_one(
            experiment(model=Slow()),
            ExecutionConfig(threads=1),
            tmp_path / "here",
            reporter,
            profile=got.append,
        )
    assert (
        got[0].rounds == json.loads((tmp_path / "here" / "profile.json").read_text())["rounds"] == 2
    )
    assert {path.name for path in (tmp_path / "here").iterdir()} >= FILES
    assert not [thread for thread in threading.enumerate() if thread.name == "fedflat-profile"]


@pytest.mark.slow
def test_workers_are_asked_in_the_middle_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was killed gives nothing; one at work tells what it has seen so far."""
    monkeypatch.setattr(worker_samples, "PATIENCE", 600.0)
    setup = prepare(experiment(model=Slow(), sampler=Cohorts(clients=5)))
    start = setup.job.learner.initial()
    requests = [
        Request(client, Broadcast(0, start.params, start.buffers, 0.1), {}, str(client))
        for client in range(5)
    ]
    with collecting_samples() as found:
        with Workers(2).open(setup.job, setup.fed, setup.source) as pool:
            replies = pool.run(requests)
            next(replies)
            killed = multiprocessing.active_children()[0]
            assert killed.pid is not None
            os.kill(killed.pid, signal.SIGKILL)
        assert len(found) == 1
        assert found[0].count
    assert not multiprocessing.active_children()


def test_without_a_folder_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    results = compare(
        ["fedavg", "fedsam"], on=data(), rounds=1, clients_per_round=2, threads=1, profile=True
    )
    messages = capsys.readouterr()
    assert len(results) == 2
    assert messages.err.count("Where the time of 1 round went") == 2
    assert "speedscope" not in messages.err
    assert messages.out == ""


def test_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every run of a comparison has its own; a resumed one says what was done since."""
    monkeypatch.chdir(tmp_path)
    quick = (
        "--on",
        "digits(lda(0), clients=20)",
        "--clients-per-round",
        "2",
        "--model",
        "logistic",
        "--threads",
        "1",
    )
    assert (
        main(
            [
                "compare",
                "fedavg",
                "fedsam(rho=0.1)",
                *quick,
                "--rounds",
                "3",
                "--out",
                "here",
                "--profile",
            ]
        )
        == 0
    )
    output, messages = capsys.readouterr()
    assert "category" not in output
    folders = ["here/01-fedavg/seed-0", "here/02-fedsam-rho=0.1/seed-0"]
    assert messages.count("Where the time of 3 rounds went") == 2
    for folder in folders:
        assert f"All samples: {folder}/profile.speedscope.json." in messages
        assert {path.name for path in Path(folder).iterdir()} >= FILES
    assert main(["run", "fedavg", *quick, "--rounds", "2", "--out", "plain", "--quiet"]) == 0
    assert not {path.name for path in Path("plain").iterdir()} & FILES
    assert "Where the time" not in capsys.readouterr().err
