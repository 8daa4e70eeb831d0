"""Whole runs of every task as a user makes them: in workers, killed and resumed, analysed,
reported.

The data are made on the spot or come with scikit-learn. Sizes are as small as they can be.
"""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fedflat as ff
from experiments.killing import newest
from experiments.small import final, kill_when_stopped, rows, start, timeless
from experiments.stopping import CHECKPOINT
from fedflat.cli import main
from report.test_page import embedded

TINY = "towns=2, clients=4, tests=12, width=32, height=16, unseen_weather='snow'"


@dataclass(frozen=True)
class Case:
    """A task with data for it, a model, and the score it is judged by."""

    on: str
    task: str
    model: str
    rounds: int
    lr: float
    score: str
    label: str
    higher: bool = True
    tests: tuple[str, ...] = ()

    def words(self) -> list[str]:
        """What a person types."""
        return [
            "run",
            "fedavg() + swa(start=2)",
            "--on",
            self.on,
            "--task",
            self.task,
            "--model",
            self.model,
            "--rounds",
            str(self.rounds),
            "--clients-per-round",
            "2",
            "--batch-size",
            "4",
            "--lr",
            str(self.lr),
            "--eval-every",
            str(max(1, self.rounds // 4)),
            "--threads",
            "1",
            "--quiet",
            "--checkpoint-every",
            "0",
        ]


CASES = {
    "segmentation": Case(
        f"street({TINY}, examples=4)",
        "segmentation()",
        "small_unet(width=4)",
        12,
        0.05,
        "miou",
        "mIoU",
        tests=("unseen_towns", "unseen_weather"),
    ),
    "retrieval": Case(
        f"street({TINY}, examples=16, targets='place', unseen_towns=0)",
        "retrieval(width=8)",
        "embedder(width=4)",
        12,
        0.05,
        "recall@1",
        "recall@1",
        tests=("unseen_weather",),
    ),
    "next_character": Case(
        "sayings(clients=6, examples=6, length=24)",
        "next_character()",
        "char_lstm(embedding=4, hidden=8, layers=1)",
        20,
        0.5,
        "accuracy",
        "character accuracy",
    ),
    "regression": Case(
        "diabetes(clients=6)", "regression()", "mlp(hidden=[8])", 30, 0.01, "rmse", "RMSE", False
    ),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
LONG = ("retrieval", "next_character", "regression")
cases_with_long_ones_apart = pytest.mark.parametrize(
    "case",
    [
        pytest.param(one, id=name, marks=[pytest.mark.slow] * (name in LONG))
        for name, one in CASES.items()
    ],
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each, made here, one client at a time."""
    folders = {}
    for name, case in CASES.items():
        folders[name] = tmp_path_factory.mktemp("whole") / name
        assert main([*case.words(), "--executor", "in-process", "--out", str(folders[name])]) == 0
    return folders


def of(case: Case, whole: dict[str, Path]) -> Path:
    return next(whole[name] for name, known in CASES.items() if known is case)


@every_case
def test_it_is_judged_by_its_headline(case: Case, whole: dict[str, Path]) -> None:
    folder = of(case, whole)
    record = json.loads((folder / "run.json").read_text())["experiment"]
    assert record["task"] == case.task
    assert record["headline"]["name"] == case.score
    assert record["headline"]["higher_is_better"] is case.higher
    for row in rows(folder):
        assert math.isfinite(row[case.score])
        assert (
            tuple(name for name in row.get("tests", {}) if "/" not in name) == case.tests
        )  # besides those by domain
        assert all(math.isfinite(scores[case.score]) for scores in row.get("tests", {}).values())
    losses = [row["loss"] for row in rows(folder)]
    assert losses[-1] < losses[0] or (case.task.startswith("retrieval") and losses[-1] != losses[0])


@pytest.mark.slow
@cases_with_long_ones_apart
def test_killed_in_workers_and_resumed_here_it_ends_with_the_same_bits(
    case: Case, whole: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    config = ["--executor", "workers", "--workers", "2", "--out", str(folder)]
    kill_when_stopped(
        start(*case.words(), *config, start_new_session=True, stop_after=(CHECKPOINT, 3))
    )
    assert newest(folder) == 3 < case.rounds
    record = json.loads((folder / "run.json").read_text())
    assert record["how"]["executor"] == "workers"
    record["how"] = json.loads((of(case, whole) / "run.json").read_text())[
        "how"
    ]  # the one thing that may be edited
    (folder / "run.json").write_text(json.dumps(record))
    assert main(["resume", str(folder), "--quiet"]) == 0
    assert final(folder) == final(of(case, whole))
    assert timeless(rows(folder)) == timeless(rows(of(case, whole)))


@every_case
def test_it_is_analysed_and_shown(case: Case, whole: dict[str, Path], tmp_path: Path) -> None:
    folder = of(case, whole)
    what = ["--curvature", "-k", "1", "--surface", "--points", "3", "--examples", "4", "--quiet"]
    assert main(["analyse", str(folder), *what]) == 0
    found = {
        path.name.partition("-")[0]: json.loads(path.read_text())
        for path in (folder / "analysis").glob("*.json")
    }
    assert set(found) == {"curvature", "surface", "partition"}
    assert all(
        math.isfinite(value) for value in numbers(found["curvature"]["result"]["eigenvalues"])
    )
    assert main(["report", str(folder), "--out", str(tmp_path / "page.html")]) == 0
    shown = embedded((tmp_path / "page.html").read_text())
    assert case.label in json.dumps(shown)


def numbers(value: Any) -> list[float]:
    """All numbers in lists of lists."""
    return (
        [number for part in value for number in numbers(part)]
        if isinstance(value, list)
        else [float(value)]
    )


@every_case
def test_the_table_has_its_headline_and_a_target_is_in_its_unit(
    case: Case, whole: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = of(case, whole)
    scores = [row[case.score] for row in rows(folder)]
    best = max(scores) if case.higher else min(scores)
    reached = next(
        row
        for row in rows(folder)
        if (row[case.score] >= best if case.higher else row[case.score] <= best)
    )
    assert main(["resume", str(folder), "--target", repr(best), "--csv", "--quiet"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert float(row["rounds_to_target"]) == reached["round"]
    assert main(["resume", str(folder), "--quiet"]) == 0
    assert case.label in capsys.readouterr().out


def test_the_task_is_optional(tmp_path: Path) -> None:
    """Data know what they are for, and the task knows a model."""
    result = ff.run(
        "fedavg", on=f"street({TINY}, examples=2)", rounds=1, clients_per_round=1, threads=1
    )
    assert result.status == "done"
