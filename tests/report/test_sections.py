"""Runs are compared within one data set, partition and task, and never across them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedflat.cli import main
from fedflat.experiments.run_folder.experiment_texts import ExperimentTexts
from fedflat.experiments.run_folder.record import Origin, RunRecord, read_record
from fedflat.experiments.run_folder.study_file import PlannedRun, new_plan
from fedflat.report import collect, write_report
from report.written_runs import EXPERIMENT, evaluations, write_analyses, write_rows, write_run

METHODS = ("fedavg()", "fedprox()")
PAIRS = {
    "data set": ({"on": "digits(lda(0))"}, {"on": "cifar10(lda(0))"}),
    "partition": ({"on": "digits(lda(0))"}, {"on": "digits()"}),
    "task": ({"task": "classification()"}, {"task": "retrieval()"}),
}


def write_scored(folder: Path, score: float, **more: Any) -> Path:
    """A run with this accuracy in each of its ten evaluations."""
    run = write_run(folder, done=0, status="running", **more)
    write_rows(run, "metrics", [{**row, "accuracy": score} for row in evaluations(1, 10)], "done")
    return run


def two_seeds(root: Path, scores: tuple[float, float], **more: Any) -> list[Path]:
    """Two methods, two seeds, with these accuracies; the second seed is better by 0.01."""
    return [
        write_scored(
            root / f"{method}-{seed}", score + 0.01 * seed, method=method, seed=seed, **more
        )
        for method, score in zip(METHODS, scores, strict=True)
        for seed in (0, 1)
    ]


@pytest.mark.parametrize(("first", "second"), PAIRS.values(), ids=PAIRS)
def test_each_scenario_has_a_section(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any]
) -> None:
    """In one the first method is ahead, in the other the second; all of one are better than all of
    the other."""
    runs = [
        *two_seeds(tmp_path / "a", (0.9, 0.8), **first),
        *two_seeds(tmp_path / "b", (0.2, 0.3), **second),
    ]
    found = collect(runs)
    assert [(method["name"], method["board"], method["seeds"]) for method in found["methods"]] == [
        (name, board, 2) for board in (0, 1) for name in METHODS
    ]
    one, other = found["boards"]
    assert (one["ahead"], other["ahead"]) == (0, 3)
    assert (one["target"], other["target"]) == (0.905, 0.205)
    assert one["lead"] == "fedavg() is the most accurate with 90.50 ± 0.71 % (2 seeds)."
    assert other["lead"] == "fedprox() is the most accurate with 30.50 ± 0.71 % (2 seeds)."
    assert found["lead"] == (
        "2 sections, one for each data set, partition and task. Nothing is compared across sections."
    )
    assert one["title"] != other["title"]
    assert all(board["title"] in found["text"] for board in found["boards"])


def test_a_section_names_its_data_partition_and_task(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "a", on="digits(lda(0), clients=20)"),
        write_run(tmp_path / "b", on="nobody_knows(3)"),
    ]
    found = collect([*runs, write_run(tmp_path / "c", on="digits()", task="retrieval()")])
    assert found["title"] == "fedavg() on 2 data sets"
    assert [
        [board[name] for name in ("data_set", "partition", "task")] for board in found["boards"]
    ] == [
        ["digits", "lda(0), 20 clients", "classification()"],
        ["nobody_knows(3)", "not readable without the plugin of the data set", "classification()"],
        ["digits", "iid(), 100 clients", "retrieval()"],
    ]
    assert collect([runs[0]])["title"] == "fedavg() on digits(lda(0), clients=20)"
    partitions = [write_run(tmp_path / f"p{i}", on=f"digits(lda({i}))") for i in (0, 1)]
    assert collect(partitions)["title"] == "fedavg() on digits, 2 partitions"


def test_data_given_in_python_are_distinguished_by_their_digests(tmp_path: Path) -> None:
    runs = []
    for name, digest in (("a", "1" * 64), ("b", "2" * 64), ("c", "1" * 64)):
        run = tmp_path / name
        run.mkdir()
        experiment = {**EXPERIMENT, "on": None, "seed": len(runs)}
        texts = ExperimentTexts.from_json(experiment)
        RunRecord.new(texts, {}, Origin(data=digest)).write(run)
        write_rows(run, "metrics", evaluations(1, 10), "done")
        runs.append(run)
    found = collect(runs)
    assert [method["seeds"] for method in found["methods"]] == [2, 1]
    assert [board["data_set"] for board in found["boards"]] == [
        f"data given in Python ({8 * d})" for d in "12"
    ]


def test_analyses_say_which_section_they_are_of(tmp_path: Path) -> None:
    """Each section has its own choice of how curvature was measured, and the partition of each is
    shown."""
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b", on="digits()")]
    for run in runs:
        write_analyses(run)
    found = collect(runs)
    titles = [board["title"] for board in found["boards"]]
    for kind in ("curvature", "surface", "plane", "partition", "confusion"):
        assert [one["section"] for one in found[kind]] == titles
    assert all(method["lambda_1"] is not None for method in found["methods"])


def test_what_is_missing_is_reported_of_each_section(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / f"{on}{m}", on=on, method=m)
        for on in ("digits(lda(0))", "digits()")
        for m in METHODS
    ]
    write_analyses(runs[0])
    output = collect(runs)["missing"]
    assert "No loss surfaces of fedprox() on digits(lda(0)), classification()." in output
    assert "No loss surfaces on digits(), classification()." in output


def study(folder: Path, target: float | None, **more: Any) -> Path:
    """A study of two methods with this target."""
    experiments = []
    for place, method in enumerate(METHODS):
        run = write_run(folder / str(place), method=method, **more)
        experiments.append(read_record(run).experiment)
    runs = [PlannedRun(str(i), one) for i, one in enumerate(experiments)]
    new_plan(runs, {}, target).write(folder)
    return folder


def test_each_section_has_the_target_of_its_study(tmp_path: Path) -> None:
    """The third study has none: its target is what its first method reaches."""
    first, second = study(tmp_path / "a", 0.3), study(tmp_path / "b", 0.4, on="digits()")
    third = study(tmp_path / "c", None, on="digits(lda(1))")
    found = collect([first, second, third])
    assert [(board["target"], board["target_of_first"]) for board in found["boards"]] == [
        (0.3, False),
        (0.4, False),
        (0.525, True),
    ]
    assert [method["rounds_to_target"] for method in found["methods"]] == [4, 4, 6, 6, 9, 9]
    again = collect([first, second], target="50%")
    assert [board["target"] for board in again["boards"]] == [0.5, 0.5]
    assert found["problems"] == again["problems"] == []


def test_studies_of_one_section_with_different_targets(tmp_path: Path) -> None:
    more = {**EXPERIMENT["local"], "epochs": 3}
    folders = [study(tmp_path / "a", 0.3), study(tmp_path / "b", 0.4, local=more)]
    found = collect(folders)
    assert found["boards"][0]["target_of_first"]
    assert found["problems"] == [
        "The studies on digits(lda(0)), classification() have different targets (30.0 % and 40.0 %). None of them is "
        "used: --target sets one for all."
    ]
    assert collect(folders, target=0.35)["problems"] == []


def shown_target(page: Path) -> list[Any]:
    """The targets that a page shows."""
    text = page.read_text().partition('id="data">')[2].partition("</script>")[0]
    return [(board["target"], board["target_of_first"]) for board in json.loads(text)["boards"]]


COMPARE = "compare fedavg fedprox(mu=0.1) --on digits(clients=5) --model logistic --rounds 2 --clients-per-round 1"


def test_a_report_made_again_keeps_the_target(tmp_path: Path) -> None:
    out, page = tmp_path / "study", tmp_path / "study" / "report.html"
    assert main([*COMPARE.split(), "--quiet", "--target", "15%", "--out", str(out)]) == 0
    assert shown_target(page) == [(0.15, False)]
    page.unlink()
    assert main(["report", str(out)]) == 0
    assert shown_target(page) == [(0.15, False)]
    assert main(["report", str(out), "--target", "0.2"]) == 0
    assert shown_target(page) == [(0.2, False)]
    assert main(["report", str(out)]) == 0
    assert shown_target(page) == [(0.15, False)]
    assert main(["resume", str(out), "--quiet"]) == 0
    assert shown_target(page) == [(0.15, False)]
    assert main(["resume", str(out), "--quiet", "--target", "25%"]) == 0
    assert main(["report", str(out)]) == 0
    assert shown_target(page) == [(0.25, False)]


def test_a_study_without_a_target_takes_that_of_the_first_method(tmp_path: Path) -> None:
    out = tmp_path / "study"
    assert main([*COMPARE.split(), "--quiet", "--out", str(out)]) == 0
    assert "target" not in json.loads((out / "study.json").read_text())
    ((_, of_first),) = shown_target(out / "report.html")
    assert of_first


def test_a_changed_target_is_noticed(tmp_path: Path) -> None:
    """It is under the digest of study.json like the rest."""
    folder = study(tmp_path / "a", 0.3)
    plan = json.loads((folder / "study.json").read_text())
    for target in (0.4, "30%"):
        (folder / "study.json").write_text(json.dumps({**plan, "target": target}))
        assert "is damaged" in collect([folder])["problems"][0]


@pytest.mark.slow
def test_figures_of_two_sections(tmp_path: Path) -> None:
    """Curves have a file for each section, with its name, and so has the partition."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b", on="digits()")]
    for run in runs:
        write_analyses(run, points=5)
    write_report(runs, tmp_path / "page.html", figures=tmp_path / "figures", formats=["svg"])
    made = {path.stem: path.read_text() for path in (tmp_path / "figures").iterdir()}
    kinds = ("accuracy", "loss", "train_loss", "density", "surface", "plane", "partition-seed0")
    assert made.keys() >= {name for kind in kinds for name in (kind, f"{kind}-2")}
    assert all(name.removesuffix("-2") in made for name in made)
    assert ">digits(lda(0)), classification()<" in made["accuracy"]
    assert ">digits(), classification()<" in made["accuracy-2"]
    assert ">parameter distance<" in made["plane"]
    assert "distance / length of the weights from the model" in made["surface"]
