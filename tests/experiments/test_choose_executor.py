from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import fedflat as ff
from experiments.small import final, rows, timeless
from fedflat import SettingError
from fedflat.client.cost_model import forward_cost
from fedflat.client.learner import Learner
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.stacked import Stacked
from fedflat.execution.workers import Workers
from fedflat.experiments import execution_config as auto
from fedflat.experiments.api import experiment
from fedflat.experiments.execution_config import ExecutionConfig, RunLoad, choose, cores
from fedflat.experiments.prepare import prepare
from fedflat.experiments.study import Reporter, resume
from fedflat.registry.specs import parse

ON = "digits(lda(0), clients=20)"
MANY = 10**9
"""Requests that take too long one by one."""
SMALL = RunLoad(MANY, 10, 0.002, small=True, stackable=True, unsendable=None)
WIDE = replace(SMALL, cohort=1000, gradients=20)
PARTS = Stacked(1, cores()) if cores() > 1 else Stacked(1)
LARGE = RunLoad(MANY, 3, 1.0, small=False, stackable=False, unsendable=None)
SHARED = Workers(min(cores(), 3)) if cores() > 1 else InProcess(torch.get_num_threads())


def load(**more: Any) -> RunLoad:
    return RunLoad.of(
        prepare(experiment(**{"method": "fedsam(rho=0.1)", "on": ON, "rounds": 10, **more}))
    )


@pytest.mark.parametrize(
    ("loads", "executor", "why"),
    [
        ([replace(SMALL, requests=100)], InProcess(1), "estimated at 2.0 ms, a whole run at 0.2 s"),
        ([SMALL], Stacked(1), "all clients of a round in one stack"),
        ([SMALL, replace(SMALL, cohort=1)], Stacked(1), "in one stack"),
        ([SMALL, replace(SMALL, stackable=False)], InProcess(1), "too short to be sent elsewhere"),
        ([replace(SMALL, device="cuda")], Stacked(1), "in one stack"),
        ([WIDE], PARTS, f"in stacks, in {cores()} processes" if cores() > 1 else "in one stack"),
        ([WIDE, replace(WIDE, gradients=15)], Stacked(1), "in one stack"),
        ([replace(WIDE, cohort=40)], Stacked(1), "in one stack"),
        ([replace(WIDE, requests=100_000)], Stacked(1), "in one stack"),
        ([replace(WIDE, device="cuda")], Stacked(1), "in one stack"),
        ([replace(WIDE, unsendable="it is mine")], Stacked(1), "in one stack"),
        ([replace(LARGE, device="cuda:0")], InProcess(torch.get_num_threads()), "on the device"),
        ([LARGE], SHARED, "a request is estimated at 1.0 s"),
        ([LARGE, replace(LARGE, cohort=1)], SHARED, "a request is estimated at 1.0 s"),
        ([replace(LARGE, seconds=0.01)], InProcess(1), "too short"),
        (
            [LARGE, replace(LARGE, unsendable="it is mine")],
            InProcess(torch.get_num_threads()),
            ", but it is mine",
        ),
        (
            [replace(LARGE, cohort=1)],
            InProcess(torch.get_num_threads()),
            "no two are asked at once",
        ),
        ([replace(SMALL, cohort=1)], InProcess(1), "no two are asked at once"),
    ],
)
def test_one_choice_for_all_runs(loads: list[RunLoad], executor: Executor, why: str) -> None:
    assert choose(loads)[0] == executor
    assert why in choose(loads)[1]


def test_what_is_known_of_a_run() -> None:
    known = load(clients_per_round=8, rounds=9000)
    assert (known.requests, known.cohort, known.small, known.stackable) == (72_000, 8, True, True)
    assert not load(clients_per_round=7, rounds=9000).stackable
    assert not load(model="tiny_convnet", clients_per_round=8).small
    assert load(method="centralised").cohort == 1


def test_gradients_of_a_request() -> None:
    """A usual client has 36 examples, so two batches of 32 in an epoch."""
    assert load(method="fedavg").gradients == 2
    assert load(local_epochs=3).gradients == 12  # two gradients a step


def test_the_estimate_counts_what_is_computed() -> None:
    """Twice the epochs, or two gradients a step, are twice the work; more examples in a step cost
    less than twice."""
    once = load(method="fedavg").seconds
    assert load(method="fedavg", local_epochs=2).seconds == pytest.approx(2 * once)
    assert load().seconds == pytest.approx(2 * once)
    assert once < load(method="mime").seconds < 3 * once  # a gradient over all data besides
    assert load(method="fedavg", batch_size=2).seconds > 5 * once
    assert load(method="fedavg", local_steps=8).seconds == pytest.approx(
        4 * once
    )  # a usual client takes two


def test_the_products_of_a_network() -> None:
    """Derived: 28 - 4 pixels a side for 5x5 filters."""
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 5), torch.nn.Flatten(), torch.nn.Linear(6 * 24 * 24, 10)
    )
    found = forward_cost(Learner(net, (1, 28, 28), 10, seed=0))
    assert found.products == 24 * 24 * 6 * 25 + 6 * 24 * 24 * 10
    assert found.numbers == 28 * 28 + 2 * 6 * 24 * 24 + 10 + 10
    assert found.parts == 4


def test_the_products_of_an_lstm() -> None:
    """Derived: in each layer and at each time, four gates read the layer's input and its state."""
    net = torch.nn.LSTM(3, 5, num_layers=2, batch_first=True)
    found = forward_cost(Learner(net, (20, 3), 5, seed=0))
    assert found.products == 20 * (4 * 5 * (3 + 5) + 4 * 5 * (5 + 5))
    assert found.numbers == 20 * 3 + 20 * 2 * 2 * 4 * 5


@pytest.mark.parametrize(
    ("model", "shape", "least"), [("mlp", (1, 8, 8), 1e-5), ("cnn", (3, 32, 32), 1e-2)]
)
def test_the_estimate_is_of_the_right_size(
    model: str, shape: tuple[int, ...], least: float
) -> None:
    """A step of the papers' CNN on 32 images is tens of milliseconds on any machine, of an MLP a
    part of one."""
    estimate = forward_cost(Learner(parse(model, "model"), shape, 10, seed=0)).seconds(1, 32)
    assert least < estimate < 100 * least


def test_recurrent_networks_are_stacked_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch computes all steps of an LSTM in one operation; a stack computes them one by one."""
    on, model = "sayings(clients=20, examples=4, length=6)", "char_lstm(hidden=4)"
    long: dict[str, Any] = {"on": on, "model": model, "rounds": 100_000, "clients_per_round": 8}
    assert not load(**long).stackable
    monkeypatch.setattr(auto, "_recurrent", lambda learner: False)
    assert load(**long).stackable


def test_the_clock_has_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    exp = experiment("fedavg", ON, rounds=3000, clients_per_round=8)
    expected = choose([RunLoad.of(prepare(exp))])
    assert expected[0] == Stacked(1)
    for clock in ("perf_counter", "monotonic", "time", "process_time"):
        monkeypatch.setattr(time, clock, lambda: pytest.fail("a clock was read"))
    assert choose([RunLoad.of(prepare(exp))]) == expected


def test_what_cannot_be_sent_to_workers_stays_here() -> None:
    class Local(torch.nn.Linear):
        """Not picklable: it is defined in a function."""

    torch.manual_seed(0)
    work: dict[str, Any] = {"local_epochs": 10_000}
    why = load(model=torch.nn.Sequential(torch.nn.Flatten(), Local(64, 10)), **work).unsendable
    assert why is not None
    assert "it cannot be pickled" in why
    assert (
        load(
            model=torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)), **work
        ).unsendable
        is None
    )


def test_a_loss_that_cannot_be_stacked_is_found_before_the_first_round() -> None:
    """It was tried when the stack was opened only, which ended the run."""

    def loss(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(output, y) * (
            2 if float(output.detach().sum()) > 0 else 1
        )

    assert not load(clients_per_round=8, rounds=9000, loss=loss).stackable


def test_the_choice_is_written_down_before_the_first_round_and_kept(tmp_path: Path) -> None:
    messages: list[str] = []
    ff.compare(
        ["fedavg", "centralised"],
        seeds=2,
        on=ON,
        rounds=2,
        out=tmp_path / "study",
        reporter=Reporter(note=messages.append),
    )
    files = [tmp_path / "study" / "study.json", *(tmp_path / "study").rglob("run.json")]
    hows = [json.loads(file.read_text())["how"] for file in files]
    assert len(hows) == 5
    assert {(config["executor"], config["threads"]) for config in hows} == {("in-process", 1)}
    assert len([text for text in messages if "a request is estimated" in text]) == 1


class Killed(Exception):
    """As good as kill -9: nothing is written after it."""


def killed_at(round: int) -> Reporter:
    def on_progress(progress: Any) -> None:
        if progress.round == round:
            raise Killed

    return Reporter(announce=lambda *_: on_progress)


def test_killed_before_the_first_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole run is stacked: no request is made alone for the sake of a choice."""
    monkeypatch.setattr(auto, "WORTH", 0.0)
    settings: dict[str, Any] = {"on": ON, "rounds": 3, "clients_per_round": 8}
    ff.run("feddyn(alpha=0.1)", out=tmp_path / "whole", **settings)
    with pytest.raises(Killed):
        ff.run("feddyn(alpha=0.1)", out=tmp_path / "cut", reporter=killed_at(1), **settings)
    assert json.loads((tmp_path / "cut" / "run.json").read_text())["how"]["executor"] == "stacked"
    assert not list((tmp_path / "cut").glob("checkpoint/*.json"))
    resume(tmp_path / "cut")
    assert final(tmp_path / "cut") == final(tmp_path / "whole")
    assert timeless(rows(tmp_path / "cut")) == timeless(rows(tmp_path / "whole"))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"workers": 2}, Workers(2)),
        ({"workers": 2, "threads": 3}, Workers(2, 3)),
        ({"executor": "workers"}, Workers(cores())),
        ({"threads": 2}, InProcess(2)),
        ({"executor": "in-process"}, InProcess()),
        ({"executor": "stacked"}, Stacked()),
    ],
)
def test_what_people_say(message: dict[str, Any], expected: Any) -> None:
    config = ExecutionConfig(**message)
    assert config.resolved([], pytest.fail) == config
    assert config.make() == expected


def test_what_was_chosen_is_made_again() -> None:
    for loads in ([SMALL], [LARGE], [replace(LARGE, cohort=1)]):
        config = ExecutionConfig().resolved(loads, lambda why: None)
        assert not config.undecided
        assert config.make() == choose(loads)[0]


def test_workers_do_not_go_with_another_executor() -> None:
    with pytest.raises(
        SettingError,
        match=r"the executor 'in-process' has no workers. Remove --workers or --executor",
    ):
        ExecutionConfig(executor="in-process", workers=2)


def test_an_executor_that_is_not_there() -> None:
    known = "Known: auto, deployed, in-process, loopback, ray, stacked, workers"
    with pytest.raises(
        SettingError, match=f"unknown executor 'stackd'. Did you mean 'stacked'\\? {known}"
    ):
        ExecutionConfig(executor="stackd")
    with pytest.raises(
        SettingError, match=r"written as a call, 'workers\(workers=2\)'. Set them inside the call"
    ):
        ExecutionConfig(executor="workers(workers=2)", threads=3)
    assert ExecutionConfig(executor="workers(workers=2, threads=3)").make() == Workers(2, 3)
