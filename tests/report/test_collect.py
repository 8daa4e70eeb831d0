"""Run folders as one document, whole, unfinished or damaged."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from fedflat.experiments.run_folder.experiment_texts import ExperimentTexts
from fedflat.experiments.run_folder.study_file import PlannedRun, new_plan
from fedflat.report import collect
from report.written_runs import (
    CURVATURES,
    EXPERIMENT,
    accuracy,
    write_analyses,
    write_analysis,
    write_recorded,
    write_rows,
    write_run,
    write_timed,
)


def text(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def test_a_comparison_over_seeds(tmp_path: Path) -> None:
    """Two methods, two seeds: means over the last four rounds, spread over seeds, what it cost, the
    target."""
    runs = [
        write_run(tmp_path / f"{m}-{s}", method=m, seed=s)
        for m in ("fedavg()", "fedsam(rho=0.1)")
        for s in (0, 1)
    ]
    found = collect(runs)
    assert [m["name"] for m in found["methods"]] == ["fedavg()", "fedsam(rho=0.1)"]
    first = found["methods"][0]
    last = [[accuracy(seed, t) for t in (7, 8, 9, 10)] for seed in (0, 1)]
    means = [sum(values) / 4 for values in last]
    assert first["score"] == pytest.approx(sum(means) / 2, rel=1e-4)
    assert first["spread"] == pytest.approx(abs(means[1] - means[0]) / 2**0.5, rel=1e-4)
    assert (first["seeds"], first["begun"], first["bytes"], first["seconds"]) == (2, 2, 4000, 10)
    assert found["boards"][0]["target"] == pytest.approx(first["score"], rel=1e-4)
    assert found["boards"][0]["target_of_first"]
    assert first["rounds_to_target"] == pytest.approx((10 + 8) / 2)
    assert found["title"] == "2 methods on digits(lda(0))"
    assert found["problems"] == []
    text(found)


def test_curves(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / str(s), seed=s, done=10 - 5 * s, status="running" if s else "done")
        for s in (0, 1)
    ]
    curve = collect(runs)["methods"][0]["curves"]["accuracy"]
    assert curve["round"] == list(range(1, 11))
    assert curve["mean"][0] == pytest.approx((accuracy(0, 1) + accuracy(1, 1)) / 2)
    assert curve["low"][0] == pytest.approx(accuracy(0, 1))
    assert curve["high"][0] == pytest.approx(accuracy(1, 1))
    assert curve["mean"][9] == pytest.approx(accuracy(0, 10))
    assert curve["bytes"][2] == 1200
    assert curve["seconds"][2] == 3


def test_simulated_time_and_all_that_was_sent(tmp_path: Path) -> None:
    chain = write_timed(tmp_path / "a", 7.0, between=50, clock="devices()")
    timed, other = collect([chain, write_run(tmp_path / "b", method="fedsam()")], target=0.3)[
        "methods"
    ]
    curve = timed["curves"]["accuracy"]
    assert curve["clock"] == [7 * t for t in range(1, 11)]
    assert curve["bytes"][2] == 3 * (100 + 300 + 50)
    assert (timed["clock"], timed["clock_to_target"], timed["bytes_to_target"]) == (70, 28, 4 * 450)
    assert (other["clock"], other["clock_to_target"]) == (None, None)
    assert "clock" not in other["curves"]["accuracy"]


def test_long_runs_are_thinned(tmp_path: Path) -> None:
    curve = collect([write_run(tmp_path / "long", done=2000, rounds=2000)])["methods"][0]["curves"][
        "loss"
    ]
    assert curve["evaluations"] == 2000
    assert len(curve["round"]) == 300
    assert (curve["round"][0], curve["round"][-1]) == (1, 2000)


def test_unfinished_seeds_do_not_blur_the_summary(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / "0"), write_run(tmp_path / "1", seed=1, done=2, status="running")]
    found = collect(runs)
    method = found["methods"][0]
    assert (method["seeds"], method["begun"]) == (1, 2)
    assert method["score"] == pytest.approx(sum(accuracy(0, t) for t in (7, 8, 9, 10)) / 4)
    assert "1 of 2 runs is not finished." in found["lead"]
    assert [run["status"] for run in found["runs"]] == ["done", "running"]


def test_the_same_method_with_other_settings_is_another_line(tmp_path: Path) -> None:
    local = {**EXPERIMENT["local"], "epochs": 3}
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b", local=local)]
    names = [m["name"] for m in collect(runs)["methods"]]
    assert names[0].startswith("fedavg(), local_epochs=1")
    assert names[1].startswith("fedavg(), local_epochs=3")


def test_a_run_given_twice_is_reported(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / "a"), write_run(tmp_path / "b")]
    assert any("repeats" in output for output in collect(runs)["problems"])
    assert len(collect([runs[0], runs[0]])["runs"]) == 1


def test_a_study_stands_for_its_runs(tmp_path: Path) -> None:
    write_run(tmp_path / "01" / "seed-0")
    texts = ExperimentTexts.from_json(EXPERIMENT)
    new_plan([PlannedRun(f"01/seed-{seed}", texts) for seed in (0, 1)], {}).write(tmp_path)
    found = collect([tmp_path])
    assert len(found["runs"]) == 1
    assert found["problems"] == [f"1 of the 2 runs in {tmp_path} have not begun."]


def test_analyses(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / m, method=m) for m in ("fedavg()", "fedprox()")]
    for stretch, run in enumerate(runs, 1):
        write_analyses(run, stretch=stretch)
        write_recorded(run)
    found = collect(runs)
    assert found["problems"] == []
    assert [m["lambda_1"] for m in found["methods"]] == [CURVATURES[0], 2 * CURVATURES[0]]
    assert found["methods"][1]["trace"] == 2 * sum(CURVATURES)
    surface = found["surface"][1]
    assert (surface["label"], surface["seed"], surface["center"]["loss"]) == ("fedprox()", 0, 2)
    assert surface["loss"][5][5] == 2
    assert surface["loss"][0][10] == pytest.approx(2 * (1 + 4 + 1))
    assert [one["scaled"] for one in found["curvature"]] == [
        stretch * CURVATURES[0] * 3**2 for stretch in (1, 2)
    ]
    assert [m["scaled"] for m in found["methods"]] == [one["scaled"] for one in found["curvature"]]
    assert len(found["partition"]) == 1
    assert found["corruptions"][0]["kinds"]["motion_blur"][2] is None
    assert found["heatmaps"][0]["values"][1][0] == pytest.approx(0.9)
    assert found["methods"][0]["recorded"]["features"]["mean"] == [2.0] * 10
    assert list(found["recorded"]) == ["drift", "norms", "classes", "alignment", "features"]
    assert found["missing"] == []


def test_models_of_planes_and_lines_are_called_by_their_methods(tmp_path: Path) -> None:
    """Whatever their folders are called, and from wherever they were named when the analysis was
    made."""
    names = ("fedavg()", "fedsam(rho=0.1)", "fedprox()")
    runs = [write_run(tmp_path / f"0{i}" / "seed-0", method=name) for i, name in enumerate(names)]
    more = write_run(tmp_path / "00" / "seed-1", method="fedavg()", seed=1)
    axis = [0.0, 1.0]
    grid = {"x": axis, "y": axis, "loss": [[1.0, 2.0], [3.0, 4.0]]}
    line = {"gamma": axis, "loss": axis, "barrier": 0.0}

    def plane(run: Path, models: list[str], marks: list[str]) -> None:
        points = [{"name": name, "x": 0.0, "y": 0.0, "loss": 1.0} for name in marks]
        write_analysis(
            run,
            "plane",
            {"model": "server", "set": "test", "models": models},
            {**grid, "points": points},
        )

    plane(runs[0], [f"{run}:server" for run in runs], [f"{name}, seed 0: server" for name in names])
    moved = [f"old/place/{run.relative_to(tmp_path)}:server" for run in (runs[0], more, runs[1])]
    plane(runs[1], moved, ["a", "b", "c"])
    plane(runs[2], [f"client {k}" for k in (3, 5, 7)], [f"client {k}" for k in (3, 5, 7)])
    plane(
        more,
        ["nowhere:server", f"{runs[0]}:swa", f"{more}:server in round 4"],
        ["x: server", "y", "z"],
    )
    write_analysis(
        runs[0], "interpolate", {"a": f"{runs[0]}:server", "b": f"{runs[2]}:server"}, line
    )
    write_analysis(more, "interpolate", {"a": f"{more}:server", "b": f"{runs[0]}:server"}, line)
    found = collect([*runs, more])
    assert [one["title"] for one in found["plane"]] == [
        "fedavg(), fedsam(rho=0.1) and fedprox()",
        "fedavg() and fedsam(rho=0.1)",
        "fedprox(): client 3, client 5 and client 7",
        "x: server and fedavg()",
    ]
    assert [[mark["name"] for mark in one["marks"]] for one in found["plane"]] == [
        ["fedavg(), seed 0", "fedsam(rho=0.1), seed 0", "fedprox(), seed 0"],
        ["fedavg(), seed 0", "fedavg(), seed 1", "fedsam(rho=0.1), seed 0"],
        ["fedprox(), client 3", "fedprox(), client 5", "fedprox(), client 7"],
        ["x: server", "fedavg(), seed 0 swa", "fedavg(), seed 1 in round 4"],
    ]
    titles = ["fedprox() to fedavg()", "fedavg(), seed 0 to fedavg(), seed 1"]
    assert [one["title"] for one in found["interpolate"]] == titles
    assert all(
        str(tmp_path) not in one["settings"] for one in found["plane"] + found["interpolate"]
    )


def test_an_average_is_named_beside_its_method(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", method="fedavg() + swa()")
    grid = {"x": [0.0, 1.0], "y": [0.0, 1.0], "loss": [[1.0, 2.0], [3.0, 4.0]]}
    write_analysis(run, "surface", {"model": "swa"}, grid)
    write_analysis(run, "surface", {"model": "server"}, grid)
    assert {one["label"] for one in collect([run])["surface"]} == {
        "fedavg() + swa() [swa]",
        "fedavg() + swa()",
    }


def test_large_surfaces_are_thinned_and_gaps_stay(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a")
    axis = [float(i) for i in range(201)]
    rows = [[None if i == j else 1.23456789 for i in range(201)] for j in range(201)]
    write_analysis(run, "surface", {}, {"x": axis, "y": axis, "loss": rows})
    surface = collect([run])["surface"][0]
    assert (len(surface["x"]), len(surface["loss"]), surface["points"]) == (61, 61, [201, 201])
    assert surface["loss"][0][:2] == [None, 1.235]


DAMAGE: dict[str, Any] = {
    "no JSON": "{",
    "not an object": "[1]",
    "no kind": '{"settings": {}, "result": {}}',
    "unknown kind": '{"kind": "horoscope", "settings": {}, "result": {}}',
    "ragged": '{"kind": "surface", "settings": {}, "result": {"x": [0, 1], "y": [0, 1], "loss": [[1, 2], [3]]}}',
    "texts": '{"kind": "surface", "settings": {}, "result": {"x": [0, 1], "y": [0], "loss": [["a", 2]]}}',
    "empty": '{"kind": "surface", "settings": {}, "result": {"x": [], "y": [], "loss": []}}',
    "no result": '{"kind": "curvature", "settings": {}, "result": null}',
    "density": '{"kind": "curvature", "settings": {}, "result": {"density": {"x": [1], "y": [1, 2]}}}',
    "no counts": '{"kind": "partition", "settings": {}, "result": {"counts": []}}',
}


@pytest.mark.parametrize("content", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_analysis_is_a_sentence(tmp_path: Path, content: str) -> None:
    run = write_run(tmp_path / "a")
    (run / "analysis").mkdir()
    path = run / "analysis" / "surface-0.json"
    path.write_text(content)
    found = collect([run])
    assert len(found["problems"]) == 1
    assert str(path) in found["problems"][0]
    assert "left out" in found["problems"][0]
    assert not found["surface"]
    assert not found["curvature"]


def test_an_unfinished_analysis_is_a_problem(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a")
    (run / "analysis").mkdir()
    (run / "analysis" / "surface-0.part.json").write_text("{")
    assert "unfinished" in collect([run])["problems"][0]


def test_damaged_and_missing_runs_leave_the_others(tmp_path: Path) -> None:
    good = write_run(tmp_path / "good")
    broken = write_run(tmp_path / "broken")
    (broken / "run.json").write_text("{")
    odd = write_run(tmp_path / "odd")
    (odd / "run.json").write_text(
        '{"fedflat": "0", "experiment": {"method": 3}, "status": "done", "how": {}}'
    )
    (tmp_path / "empty").mkdir()
    found = collect([good, broken, odd, tmp_path / "empty", tmp_path / "nowhere"])
    assert [run["folder"] for run in found["runs"]] == [str(good)]
    assert len(found["problems"]) == 4


def test_damaged_measurements(tmp_path: Path) -> None:
    """A last line that is just being written is none, unless the run has ended; nonsense is
    damage."""
    cut = write_run(tmp_path / "cut", status="running")
    lines = (cut / "metrics.jsonl").read_text()
    (cut / "metrics.jsonl").write_text(lines[:-10])
    short = write_run(tmp_path / "short", method="fedsam()")
    (short / "metrics.jsonl").write_text((short / "metrics.jsonl").read_text()[:-10])
    wrong = write_run(tmp_path / "wrong", method="fedprox()")
    with open(wrong / "metrics.jsonl", "a") as stream:
        stream.write('{"round": 11}\n')
    empty = write_run(tmp_path / "empty", method="feddyn()", done=0, status="running")
    found = collect([cut, short, wrong, empty])
    assert [run["folder"] for run in found["runs"]] == [str(cut), str(empty)]
    assert found["runs"][0]["round"] == 9
    assert [output.partition(" (")[2] for output in found["problems"][:2]] == [
        "it has 9 whole lines, and the run ended with 10). Put it back from a copy, or run it again in another folder. "
        "It is left out.",
        "line 11 is not the one that was written there). Put it back from a copy, or run it again in another folder. "
        "It is left out.",
    ]
    assert found["problems"][2] == f"{empty} holds no evaluation yet."
    assert found["methods"][1]["score"] is None
    text(found)


def test_a_run_that_diverged(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", status="diverged")
    spent = {"down": 1, "up": 1, "samples": 1, "training": 1, "seconds": 1}
    write_rows(run, "metrics", [{"round": 11, "loss": math.nan, "accuracy": 0.1, **spent}])
    found = collect([run])
    assert found["methods"][0]["diverged"] == 1
    assert found["runs"][0]["status"] == "diverged"
    assert found["methods"][0]["curves"]["loss"]["mean"][-1] is None


def test_damaged_watching(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", status="running")
    write_recorded(run, rounds=3)
    path = run / "recorded.jsonl"
    whole = path.read_text()
    path.write_text(whole + '{"round": 4, "dri')
    assert collect([run])["methods"][0]["recorded"]["drift"]["round"] == [1, 2, 3]
    path.write_text(whole.replace("0.5", "0.6"))
    assert collect([run])["problems"][0].startswith(
        f"{path} is damaged (line 2 is not the one that was written there)"
    )


def test_what_was_not_measured_is_reported(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / m, method=m) for m in ("fedavg()", "fedprox()")]
    output = collect(runs)["missing"]
    assert output[0].startswith(
        "Not analysed: confusion matrices, eigenvalues and traces of the Hessian,"
    )
    assert output[1].startswith("No metrics were recorded")
    write_analyses(runs[0])
    assert "No loss surfaces of fedprox()." in collect(runs)["missing"]


def test_curvature_has_the_larger_of_its_spreads(tmp_path: Path) -> None:
    """Over parts of the examples (0.4) and random vectors (0.1), or over the seeds."""
    alone = write_run(tmp_path / "alone")
    write_analyses(alone)
    (method,) = collect([alone])["methods"]
    assert method["lambda_1_spread"] == 0.4
    assert method["scaled_spread"] == pytest.approx(0.4 * 3**2)
    assert method["trace_spread"] == 0.1
    for stretch, spread in ((1.01, 0.4), (2.0, CURVATURES[0] / 2**0.5)):
        other = write_run(tmp_path / f"other-{stretch}", seed=1)
        write_analyses(other, stretch=stretch)
        (method,) = collect([alone, other])["methods"]
        assert method["lambda_1_spread"] == pytest.approx(spread, rel=1e-4)


def test_the_table_takes_curvature_on_most_examples(tmp_path: Path) -> None:
    """Of two sets of settings that as many runs were analysed with."""
    run = write_run(tmp_path / "a")
    for examples, top in ((200, 9.0), (1000, 7.0), (50, 11.0)):
        output = {"model": "server", "set": "test", "examples": examples, "of": 10_000, "seed": 0}
        write_analysis(
            run, "curvature", output, {"lambda_1": top, "examples": examples, "of": 10_000}
        )
    found = collect([run])
    assert (found["methods"][0]["lambda_1"], found["methods"][0]["lambda_1_spread"]) == (7.0, None)
    assert found["boards"][0]["curvature_of"] == "1,000 of 10,000 test examples"


def test_a_plane_through_several_runs_is_missed_by_none(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, method=name) for name in ("fedavg()", "fedprox()")]
    write_analyses(runs[0])
    output = " ".join(collect(runs)["missing"])
    assert "loss surfaces of fedprox()" in output
    assert "planes" not in output
    assert "losses between" not in output


def test_what_alpha_is_stands_at_the_top_of_the_page(tmp_path: Path) -> None:
    """Once for each partition that is easily mistaken, in the lead and in the text without
    scripts."""
    runs = [
        write_run(tmp_path / f"{m}-{a}", method=m, on=f"digits(lda({a}))")
        for m in ("fedavg()", "fedsam(rho=0.1)")
        for a in (0, 0.1)
    ]
    found = collect(runs)
    for shown in (found["lead"], found["text"]):
        assert shown.count("alpha is the total concentration") == 1
        assert (
            "lda(0.1): alpha is the total concentration, divided among the classes. NIID-Bench, PFLlib and"
            in shown
        )
    assert "alpha is" not in collect(runs[:1])["lead"]
    text(found)
