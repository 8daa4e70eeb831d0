"""One bad run among good ones: the page shows the good ones and names the bad one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fedflat.composition.info import MethodInfo
from fedflat.report import collect, document
from fedflat.report.live_server import look
from report.damage import damaged_runs
from report.written_runs import write_analyses, write_recorded, write_run


def test_whatever_is_wrong_with_one_run_the_others_are_shown(tmp_path: Path) -> None:
    """Every leaf of every file of a run damaged in turn: each is shown or named, the good one
    always shown."""
    good = write_run(tmp_path / "good", method="fedprox()")
    bad = list(damaged_runs(tmp_path / "bad", each=False))
    assert len(bad) > 200
    for run in bad[::4]:
        found = collect([good, run])
        shown = [one["folder"] for one in found["runs"]]
        assert str(good) in shown
        assert str(run) in shown or any(str(run) in output for output in found["problems"]), run
        json.dumps(found, allow_nan=False)
    found = collect([*bad, good])
    shown = [one["folder"] for one in found["runs"]]
    assert str(good) in shown
    assert [
        run for run in bad if str(run) not in shown and str(run) not in str(found["problems"])
    ] == []
    assert document(found).encode()


def test_an_unexpected_error_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = write_run(tmp_path / "good"), write_run(tmp_path / "bad", method="fedprox()")
    write_analyses(bad)

    def fail(*given: object) -> None:
        raise RecursionError("x" * 1000)

    monkeypatch.setattr(
        "fedflat.experiments.run_folder.experiment_texts.method_info",
        lambda method: fail() if method == "fedprox()" else MethodInfo(),
    )
    found = collect([bad, good])
    assert [one["folder"] for one in found["runs"]] == [str(good)]
    [output] = found["problems"]
    assert output.startswith(f"{bad} cannot be shown (RecursionError: xxx")
    assert output.endswith("...). It is left out.")
    assert len(output) < 300 + len(str(bad))


def test_a_damaged_study_leaves_the_others(tmp_path: Path) -> None:
    good, study = write_run(tmp_path / "good"), tmp_path / "study"
    study.mkdir()
    for text in (
        "{",
        "[]",
        '{"runs": 3}',
        '{"runs": [{"folder": 3, "experiment": {}}], "how": {}, "fedflat": ""}',
    ):
        (study / "study.json").write_text(text)
        found = collect([study, good])
        assert [one["folder"] for one in found["runs"]] == [str(good)]
        assert str(study) in found["problems"][0]


PIPES = (
    "run.json",
    "metrics.jsonl",
    "recorded.jsonl",
    "analysis/surface-000000000000.json",
    "study.json",
    "analysis",
)


def test_named_pipes_and_folders_in_place_of_files_do_not_hang(tmp_path: Path) -> None:
    """No process writes into the pipes, so a reader of them would wait for ever."""
    good, bad = write_run(tmp_path / "good"), []
    for kind in (os.mkfifo, os.mkdir):
        for name in PIPES:
            if kind is os.mkdir and name == "analysis":
                continue
            run = tmp_path / kind.__name__ / name.replace("/", "-")
            if name == "study.json":
                run.mkdir(parents=True)
            else:
                write_recorded(write_run(run, method="fedprox()"))
            (run / name).parent.mkdir(exist_ok=True)
            (run / name).unlink(missing_ok=True)
            kind(run / name)
            bad.append(run)
    found = collect([*bad, good])
    shown = [one["folder"] for one in found["runs"]]
    assert str(good) in shown
    named = [run for run in bad if any(str(run) in output for output in found["problems"])]
    assert {str(run) for run in bad} - set(shown) <= {str(run) for run in named}
    assert set(look(tmp_path)[0]) >= {good}


def test_half_a_character_in_a_name_is_no_end(tmp_path: Path) -> None:
    text = document(collect([write_run(tmp_path / "a", method="\ud800")]))
    assert "? on digits(lda(0)) · fedflat</title>" in text.encode().decode()
