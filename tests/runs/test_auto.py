from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fedflat import SettingError, run
from fedflat.runs import auto
from fedflat.runs.api import experiment
from fedflat.runs.auto import Auto, cores
from fedflat.runs.executors import Executor, InProcess, Workers
from fedflat.runs.ready import make_ready
from fedflat.runs.stacked import Stacked
from fedflat.runs.study import How, resume
from fedflat.runs.train import train

ON = "digits(lda(0), clients=20)"
LONG = 10**9
"""Visits that nobody wants to make one by one."""


class Listener:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Executor, str]] = []

    def __call__(self, executor: Executor, why: str) -> None:
        self.told.append((executor, why))


def settle(visits: int, cohort: int, model: Any = "mlp") -> tuple[Executor, str, Any]:
    """What `Auto` chooses for a run, and the run's model."""
    exp = experiment("fedsam(rho=0.1)", ON, rounds=2, clients_per_round=cohort, model=model)
    listener = Listener()
    result = train(exp, executor=Auto(visits, cohort, listener))
    (choice,) = listener.told
    return *choice, result.model


def alone(cohort: int, model: Any = "mlp") -> Any:
    exp = experiment("fedsam(rho=0.1)", ON, rounds=2, clients_per_round=cohort, model=model)
    return train(exp, executor=InProcess(1)).model


def test_a_short_run_stays_in_this_process() -> None:
    executor, why, model = settle(visits=16, cohort=8)
    assert executor == InProcess(1)
    assert "one client at a time" in why
    assert torch.equal(model.params, alone(8).params)


def test_a_long_run_of_a_small_network_is_stacked() -> None:
    executor, why, model = settle(LONG, cohort=8)
    assert executor == Stacked()
    assert "one stack" in why
    torch.testing.assert_close(model.params, alone(8).params, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.001, InProcess(1)), (1.0, Workers(min(cores(), 3)) if cores() > 1 else InProcess())]
)
def test_only_visits_of_some_length_are_sent_to_workers(seconds: float, expected: Executor) -> None:
    ready = make_ready(experiment("fedavg", ON, rounds=2, clients_per_round=3))
    executor, why = Auto(LONG, 3).after(ready.job, ready.source, seconds)
    assert executor == expected
    assert "a visit takes" in why


@pytest.mark.skipif(cores() < 2, reason="one core")
def test_a_run_that_goes_to_workers_has_the_bits_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "LONG", 0.0)
    executor, why, model = settle(LONG, cohort=3)
    assert executor == Workers(min(cores(), 3))
    assert "in a process of its own" in why
    assert torch.equal(model.params, alone(3).params)


def test_one_client_a_round_needs_no_timing() -> None:
    executor, why, _ = settle(LONG, cohort=1)
    assert executor == InProcess()
    assert "no two" in why


def test_what_cannot_be_sent_to_workers_stays_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "LONG", 0.0)

    class Local(torch.nn.Linear):
        """Not picklable: it is defined in a function."""

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), Local(64, 10))
    executor, why, _ = settle(LONG, cohort=3, model=net)
    assert executor == InProcess()
    assert "nobody to share with" in why


def test_the_choice_is_written_down_and_kept_when_resumed(tmp_path: Path) -> None:
    run("fedavg", on=ON, rounds=2, out=tmp_path / "run")
    how = json.loads((tmp_path / "run" / "run.json").read_text())["how"]
    assert how["executor"] == "in-process"
    assert how["threads"] == 1
    assert resume(tmp_path / "run")[0].status == "done"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, Auto),
        ({"workers": 2}, Workers(2)),
        ({"workers": 2, "threads": 3}, Workers(2, 3)),
        ({"executor": "workers"}, Workers(cores())),
        ({"threads": 2}, InProcess(2)),
        ({"executor": "in-process"}, InProcess()),
        ({"executor": "stacked"}, Stacked()),
    ],
)
def test_what_people_say(said: dict[str, Any], expected: Any) -> None:
    ready = make_ready(experiment("fedavg", ON, rounds=2))
    executor = How(**said).settle(ready, Listener())
    assert isinstance(executor, Auto) if expected is Auto else executor == expected


def test_workers_do_not_go_with_another_executor() -> None:
    with pytest.raises(SettingError, match="2 workers were asked for, but the executor 'stacked' has none"):
        How(executor="stacked", workers=2)


def test_an_executor_that_is_not_there() -> None:
    with pytest.raises(SettingError, match="stacked"):
        How(executor="stackd")
