"""Tasks in runs: further test sets, stacks of clients, refusals, and a plugin's task on the
command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import fedflat as ff
from experiments.small import final
from fedflat.errors import SettingError
from plugins.printed import write_files

RUN: dict[str, Any] = {
    "rounds": 2,
    "clients_per_round": 4,
    "batch_size": 3,
    "lr": 0.05,
    "dtype": "float64",
    "quiet": True,
    "eval_every": 1,
}
STREET = (
    "street(towns=2, clients=4, examples=4, tests=4, width=16, height=16, unseen_weather='snow')"
)
CASES = {
    "segmentation": (STREET, "small_unet(width=4)"),
    "next_character": ("sayings(clients=4, examples=5, length=12)", ""),
    "regression": ("diabetes(clients=13)", "mlp(hidden=[3])"),
}


class Bigrams(torch.nn.Module):
    """Scores of the next letter by the last one alone."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(31, 31)

    def forward(self, requests: torch.Tensor) -> torch.Tensor:
        assert requests.dtype == torch.long
        return self.table(requests)


@pytest.mark.parametrize("name", CASES)
def test_a_stack_of_clients_learns_what_single_ones_do(name: str) -> None:
    on, model = CASES[name]
    output = {"on": on, "model": Bigrams if name == "next_character" else model, **RUN}
    one, many = (
        ff.run("fedavg + sam(0.01)", executor=config, **output)
        for config in ("in-process", "stacked")
    )
    torch.testing.assert_close(many.model.params, one.model.params, rtol=1e-9, atol=1e-10)
    assert one.headline.name in one.rows[-1]
    for row, other in zip(one.rows, many.rows, strict=True):
        assert row["loss"] == pytest.approx(other["loss"], rel=1e-9)


@dataclass(frozen=True, repr=False)
class Abroad(ff.DataSpec):
    """Digits, and the same ones upside down as a test set of its own."""

    def open(self, seed: int) -> ff.Federation:
        fed = ff.digits(clients=5).open(seed)
        assert isinstance(fed, ff.PartitionedFederation)
        upside = replace(fed.test.examples, inputs=fed.test.examples.inputs.flip(2))  # type: ignore[type-var, attr-defined]
        return replace(fed, more={"upside_down": ff.ClientData(upside, fed.test.index)})


def test_further_test_sets_have_scores_of_their_own(tmp_path: Path) -> None:
    result = ff.run(
        "fedavg + swa(start=1, cycle=1)",
        on=Abroad(),
        rounds=3,
        clients_per_round=5,
        lr=0.5,
        eval_every=1,
        quiet=True,
        out=tmp_path / "run",
    )
    row = ff.Result.read(tmp_path / "run").rows[-1]
    assert row["tests"] == row["models"]["swa"]["tests"]
    assert list(row["tests"]) == ["upside_down"]
    module, fed = result.module(), Abroad().open(0)
    for name, found in (("test", row), ("upside_down", row["tests"]["upside_down"])):
        data = fed.tests[name]
        batch = data.batch(torch.arange(len(data)), torch.float32)
        with torch.no_grad():
            right = (module(batch.inputs).argmax(1) == batch.targets).double().mean()
        assert found["accuracy"] == pytest.approx(float(right))
    assert row["accuracy"] > row["tests"]["upside_down"]["accuracy"]
    everything = fed.pooled().tests
    assert list(everything) == ["test", "upside_down"]


REFUSED = {
    "two classes at least": (
        ("fedavg", "diabetes(clients=6)", "classification()"),
        "these data have none",
    ),
    "numbers to be met": (
        ("fedavg", "digits(clients=6)", "regression()"),
        "targets must be floats",
    ),
    "masks": (("fedavg", "digits(clients=6)", "segmentation()"), "masks of classes"),
    "texts": (("fedavg", "diabetes(clients=6)", "next_character()"), "these data have none"),
    "mixed letters": (("fedavg + mixup", "sayings(clients=6)", None), "whole numbers"),
    "classes of FedCR": (
        ("fedcr", "diabetes(clients=6)", None),
        "fedcr has a Gaussian for each class",
    ),
    "dealt out by classes": (
        ("fedavg", "diabetes(lda(0.1), clients=6)", None),
        "not have one class each",
    ),
    "something else": (("fedavg", "digits(clients=6)", "fedavg"), "is a method, not a task"),
}


@pytest.mark.parametrize(("message", "why"), REFUSED.values(), ids=REFUSED)
def test_what_a_task_cannot_do_is_refused_in_a_sentence(
    message: tuple[str, str, str | None], why: str
) -> None:
    method, on, task = message
    model = (
        "stochastic(mlp([4]))"
        if method == "fedcr"
        else "char_lstm(hidden=4)"
        if "sayings" in on
        else "mlp([4])"
    )
    with pytest.raises(ff.FedflatError, match=why):
        ff.run(method, on=on, task=task, model=model, rounds=1, clients_per_round=2, quiet=True)


def test_classes_are_recorded_where_there_are_some(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"record: regression\(\) has no class per example"):
        ff.run(
            "fedavg",
            on="diabetes(clients=6)",
            model="mlp([4])",
            rounds=1,
            clients_per_round=2,
            quiet=True,
            record="classes",
            out=tmp_path / "run",
        )


def test_data_say_what_they_are_for_and_models_follow() -> None:
    found = {
        on: ff.experiment("fedavg", on, rounds=1)
        for on in (STREET, "sayings(clients=4)", "diabetes(clients=4)", "digits()")
    }
    assert [repr(exp.task) for exp in found.values()] == [
        "segmentation()",
        "next_character()",
        "regression()",
        "classification()",
    ]
    assert [repr(exp.model) for exp in found.values()] == [
        "small_unet()",
        "char_lstm()",
        "mlp()",
        "mlp()",
    ]
    assert found["digits()"].as_json()["task"] == "classification()"


def test_a_folder_of_before_there_were_tasks_is_a_classification(tmp_path: Path) -> None:
    from fedflat.experiments.experiment import from_json

    saved = ff.experiment("fedavg", "digits()", rounds=1).as_json()
    del saved["task"]
    assert from_json(saved).task == ff.classification()


@pytest.mark.slow
def test_somebody_elses_task_on_the_command_line(tmp_path: Path) -> None:
    """The one that docs/extending.md prints, in real processes: run, resumed, analysed, shown and
    loaded."""
    write_files(tmp_path)

    def fedflat(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "fedflat", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    table = fedflat(
        "run",
        "fedavg",
        "--on",
        "digits(clients=6)",
        "--task",
        "nearly(delta=2)",
        "--plugin",
        "nearly.py",
        "--lr",
        "0.01",
        "--rounds",
        "6",
        "--clients-per-round",
        "3",
        "--workers",
        "2",
        "--target",
        "1.5",
        "--out",
        "run",
    )
    assert "mean distance" in table
    record = json.loads((tmp_path / "run" / "run.json").read_text())["experiment"]
    assert record["task"] == "nearly(delta=2)"
    assert record["headline"] == {
        "name": "off",
        "label": "mean distance",
        "unit": "",
        "factor": 1.0,
        "higher_is_better": False,
    }
    fedflat(
        "analyse", "run", "--surface", "--points", "3", "--examples", "20", "--plugin", "nearly.py"
    )
    fedflat("report", "run")
    before = final(tmp_path / "run")
    fedflat("resume", "run", "--plugin", "nearly.py")
    assert final(tmp_path / "run") == before
