"""Runs that are judged by something else than the accuracy: results, tables, targets, progress."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

from fedflat.cli import main
from fedflat.errors import RunError, SettingError
from fedflat.experiments.console import RunLabel, fitted, sentence
from fedflat.experiments.progress import Progress
from fedflat.experiments.results.results import Result, Results
from fedflat.experiments.results.summary import summarise
from fedflat.experiments.results.tables import table
from fedflat.experiments.run_folder.record import read_record, read_rows
from fedflat.server.ledger import Ledger
from fedflat.tasks.headline import ACCURACY, Headline, common_target
from report.written_runs import write_rows, write_run

RMSE = Headline("rmse", higher_is_better=False)
MIOU = Headline("miou", "mIoU", "%", 100.0)


def result(
    values: list[float], *, headline: Headline = RMSE, method: str = "fedavg()", seed: int = 0
) -> Result:
    """A run with these scores after rounds 1, 2, ..., of which the last two count; on unseen data
    twice as much."""
    rows: list[dict[str, Any]] = [
        {
            "round": t,
            headline.name: value,
            "loss": 9.0,
            "down": 100 * t,
            "up": 0,
            "tests": {"unseen": {headline.name: 2 * value, "loss": 1.0}},
        }
        for t, value in enumerate(values, 1)
    ]
    return Result(method, seed, "done", len(values), 2, rows, Ledger(), headline=headline)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_less_is_better() -> None:
    run = result([4.0, 1.0, 2.5, 1.5])
    assert (run.final(), run.latest(), run.best()) == (2.0, 1.5, 1.0)
    reached = [run.reached(target) for target in (5.0, 1.0, 0.5)]
    assert [row and row["round"] for row in reached] == [1, 2, None]
    assert repr(run).startswith(
        "<Result of fedavg(), seed 0: rmse 2.000, last 1.500, best 1.000; done"
    )
    assert (run.final("tests.unseen.rmse"), run.best("tests.unseen.rmse"), run.best("loss")) == (
        4.0,
        2.0,
        9.0,
    )
    assert math.isnan(run.final("tests.unseen.accuracy"))


def test_a_table_with_less_is_better_and_no_unit() -> None:
    runs = [result([4.0, 1.0, 2.0, 1.0]), result([4.0, 3.0, 2.0, 2.0], method="fedsam()")]
    target = Results(runs).target_of_first()
    assert target == 1.5
    lines = table(summarise(runs, target), target, 2, "markdown").splitlines()
    assert cells(lines[0]) == [
        "method",
        "rmse",
        "last",
        "best",
        "unseen",
        "loss",
        "rounds to 1.5",
        "sent to 1.5",
        "sent in all",
        "samples/s",
    ]
    assert cells(lines[2])[:8] == [
        "`fedavg()`",
        "1.500",
        "1.000",
        "1.000",
        "3.000",
        "9.0000",
        "2",
        "200 B",
    ]
    assert cells(lines[3])[:8] == [
        "`fedsam()`",
        "2.000",
        "2.000",
        "2.000",
        "4.000",
        "9.0000",
        "-",
        "-",
    ]
    assert lines[5].startswith("Rmse and loss on the test set: ")
    assert lines[5].endswith("Less rmse is better.")
    assert lines[6] == "unseen: the rmse on a further test set, likewise."


def test_a_table_in_per_cent_under_another_name() -> None:
    runs = [result([0.25, 0.5], headline=MIOU, seed=seed) for seed in (0, 1)]
    lines = table(summarise(runs, 0.5), 0.5, 2, "markdown").splitlines()
    assert cells(lines[0])[:5] == ["method", "mIoU %", "last %", "best %", "unseen %"]
    assert cells(lines[0])[6] == "rounds to 50.0 %"
    assert cells(lines[2])[:5] == ["`fedavg()`", "37.50 ± 0.00", "50.00", "50.00", "75.00 ± 0.00"]
    assert lines[4].startswith("mIoU and loss on the test set: ")
    assert "better" not in lines[4]


def test_domains_have_a_table_of_their_own() -> None:
    """The main test set's by their bare names, others' with the set's; the spread over domains
    comes last."""
    runs = [
        result([0.25, 0.5], headline=MIOU, method=method) for method in ("fedavg()", "silobn()")
    ]
    for row in runs[0].rows:
        row["miou_std"] = 0.0125
        row["tests"] = {
            "test/rain": {"miou": 0.25},
            "unseen": {"miou": 0.2, "miou_std": 0.02},
            "unseen/sun": {"miou": 0.125},
        }
    first, _, second, foot = table(summarise(runs, None), None, 2, "markdown").split("\n\n")
    assert cells(first.splitlines()[0])[:6] == [
        "method",
        "mIoU %",
        "last %",
        "best %",
        "unseen %",
        "loss",
    ]
    heads, _, one, other = map(cells, second.splitlines())
    assert heads == ["method", "rain %", "std %", "unseen/sun %", "unseen/std %"]
    assert one == ["`fedavg()`", "25.00", "1.25", "12.50", "2.00"]
    assert other == ["`silobn()`", *"----"]
    assert foot.startswith("The mIoU in each domain of the test set")
    (row, _) = csv.DictReader(io.StringIO(table(summarise(runs, None), None, 2, "csv")))
    assert float(row["tests.unseen/std"]) == 0.02


def test_the_csv_names_the_score() -> None:
    runs = [result([4.0, 1.0])]
    (row,) = csv.DictReader(io.StringIO(table(summarise(runs, None), None, 2, "csv")))
    assert {name: float(row[name]) for name in ("rmse", "best", "tests.unseen")} == {
        "rmse": 2.5,
        "best": 1.0,
        "tests.unseen": 5.0,
    }
    assert not {"accuracy", "score", "headline"} & set(row)


def test_a_loss_as_the_headline_has_one_column() -> None:
    run = result([4.0, 1.0], headline=Headline("loss", higher_is_better=False))
    assert table(summarise([run], None), None, 2, "markdown").splitlines()[0].count("loss") == 1


def test_different_scores_are_never_in_one_table() -> None:
    """Each kind has a table of its own, one method in both too, and a sentence says why."""
    runs = Results(
        [
            result([0.5, 0.5], headline=ACCURACY),
            result([4.0, 1.0]),
            result([3.0, 3.0], method="fedsam()"),
        ]
    )
    output = repr(runs)
    assert output.startswith(
        "These runs have different headline scores (accuracy and rmse), and are not compared.\n\n"
    )
    first, second = (part for part in output.split("\n\n") if part.startswith("method"))
    assert [line.split()[:2] for line in first.splitlines()[2:]] == [["fedavg()", "50.00"]]
    assert [line.split()[:2] for line in second.splitlines()[2:]] == [
        ["fedavg()", "2.500"],
        ["fedsam()", "3.000"],
    ]
    assert (runs.headline, runs.target_of_first()) == (None, None)
    assert runs._repr_html_().count("<table>") == 2
    rows = list(csv.DictReader(io.StringIO(table(summarise(runs, None), None, 2, "csv"))))
    assert [(row["headline"], float(row["score"])) for row in rows] == [
        ("accuracy", 0.5),
        ("rmse", 2.5),
        ("rmse", 3.0),
    ]
    with pytest.raises(SettingError, match=r"have different headline scores \(accuracy and rmse\)"):
        common_target("0.5", (run.headline for run in runs))


def test_progress_says_the_headline() -> None:
    progress = Progress(3, 10, 1.0, {"round": 2, "rmse": 0.51236, "accuracy": 0.9}, 1000.0, 5.0)
    assert sentence(progress, RMSE) == (
        "round 3/10  test rmse 0.5124 (round 2)  train loss 1.00  35s left  1,000 samples/s"
    )
    which = RunLabel("fedavg()", 0, headline=RMSE)
    assert fitted(progress, which, 60) == "round 3/10  test rmse 0.5124 (round 2)  35s left  fedavg"
    assert fitted(progress, which, 43) == "round 3/10  test rmse 0.5124 (r2)  35s left"
    assert fitted(progress, which, 40) == "round 3/10  test 0.5124 (r2)  35s left"
    assert "test mIoU 25.00 % (round 3)  " in sentence(
        Progress(3, 10, 1.0, {"round": 3, "miou": 0.25}, 1.0, 5.0), MIOU
    )


def forged(folder: Path, headline: Any, values: dict[str, Any] | None = None) -> Path:
    """A run folder that claims to be judged by this, and its rows to say that."""
    run = write_run(
        folder,
        done=0,
        rounds=4,
        status="running",
        evaluate={"every": 1, "last": 2},
        headline=headline,
    )
    spent = {"down": 1, "up": 1, "samples": 1, "training": 1.0, "seconds": 1.0}
    rows = [
        {"round": t, "loss": 1.0, **spent, **(values or {"rmse": 5.0 - t})} for t in range(1, 5)
    ]
    write_rows(run, "metrics", rows, "done")
    return run


def test_a_folder_says_what_it_is_judged_by(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = forged(tmp_path / "run", RMSE.as_json())
    read = Result.read(run)
    assert (read.headline, read.final(), read.best()) == (RMSE, 1.5, 1.0)
    assert Result.read(write_run(tmp_path / "old")).headline == ACCURACY


def test_a_target_on_the_command_line_is_read_by_the_headline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = forged(tmp_path / "run", RMSE.as_json())
    assert main(["resume", str(run), "--target", "2", "--markdown", "--quiet"]) == 0
    heads, _, cells_of_it, *_ = capsys.readouterr().out.splitlines()
    assert cells(cells_of_it)[cells(heads).index("rounds to 2")] == "3"
    assert main(["resume", str(run), "--target", "90%", "--quiet"]) == 2
    assert "the rmse to reach must be a number, found '90%'." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (3, "experiment.headline must be an object, found 3"),
        ({}, "experiment.headline.name is missing"),
        ({**RMSE.as_json(), "extra": 1}, "experiment.headline.extra is not known to this version"),
        (
            {**RMSE.as_json(), "factor": "100"},
            "experiment.headline.factor must be a number, found '100'",
        ),
        ({**RMSE.as_json(), "factor": 0}, "headline: factor must be a number above 0, found 0"),
        (
            {**RMSE.as_json(), "factor": -1.0},
            "headline: factor must be a number above 0, found -1.0",
        ),
        (
            {**RMSE.as_json(), "higher_is_better": 1},
            "headline.higher_is_better must be true or false, found 1",
        ),
        ({**RMSE.as_json(), "name": "round"}, "headline: name must be a word such as accuracy"),
        ({**RMSE.as_json(), "name": "<b>"}, "headline: name must be a word such as accuracy"),
        (
            {**RMSE.as_json(), "label": "\x1b[2J"},
            "headline: label must be a text of at most 40 characters",
        ),
        (
            {**RMSE.as_json(), "unit": "x" * 10**5},
            "headline: unit must be a text of at most 40 characters",
        ),
    ],
)
def test_a_damaged_headline_is_a_sentence(tmp_path: Path, wrong: Any, message: str) -> None:
    run = write_run(tmp_path / "run")
    record = json.loads((run / "run.json").read_text())
    record["experiment"]["headline"] = wrong
    (run / "run.json").write_text(json.dumps(record))
    with pytest.raises(RunError, match="is damaged") as caught:
        read_record(run)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("value", ["much", [1.0], {"a": 1.0}, True, 10**400])
def test_a_score_that_is_no_number_is_a_sentence(tmp_path: Path, value: Any) -> None:
    run = write_run(tmp_path / "run", status="running", headline=RMSE.as_json())
    write_rows(run, "metrics", [{**read_rows(run)[-1], "rmse": value}])
    with pytest.raises(RunError, match=r"line 11: rmse must be a number or null, found"):
        read_rows(run)
