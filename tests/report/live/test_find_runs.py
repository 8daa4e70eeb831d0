"""Where runs are found, and which changes are noticed."""

from __future__ import annotations

import os
from pathlib import Path

from fedflat.report.live_server import DEPTH, look


def make(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")


def test_runs_and_studies_and_nothing_inside_them(tmp_path: Path) -> None:
    make(
        tmp_path / "b" / "run.json",
        tmp_path / "b" / "analysis" / "curvature-1.json",
        tmp_path / "b" / "mlruns" / "run.json",
        tmp_path / "a" / "study.json",
        tmp_path / "a" / "01-fedavg" / "seed-0" / "run.json",
        tmp_path / ".hidden" / "run.json",
        tmp_path / "c" / "notes.json",
    )
    found, stamps = look(tmp_path)
    assert found == [tmp_path / "a", tmp_path / "b"]
    assert [Path(path).relative_to(tmp_path).as_posix() for path, _, _ in stamps] == [
        "a/study.json",
        "a/01-fedavg/seed-0/run.json",
        "b/run.json",
        "b/analysis/curvature-1.json",
    ]


def test_the_folder_itself_may_be_one(tmp_path: Path) -> None:
    make(tmp_path / "run.json")
    assert look(tmp_path)[0] == [tmp_path]


def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert look(tmp_path / "runs") == ([], [])


def test_not_deeper_than_runs_lie(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*"x" * DEPTH)
    make(deep / "run.json")
    make(deep.parent / "y" / "z" / "run.json")
    assert look(tmp_path)[0] == [deep]


def test_news_is_a_changed_file_and_nothing_else(tmp_path: Path) -> None:
    make(tmp_path / "one" / "run.json", tmp_path / "one" / "metrics.jsonl")
    before = look(tmp_path)[1]
    make(tmp_path / "one" / "checkpoint" / "round.json", tmp_path / "one" / "final.safetensors")
    assert look(tmp_path)[1] == before
    for name in ("metrics.jsonl", "recorded.jsonl", "analysis/surface-0.json", "run.json"):
        make(tmp_path / "one" / name)
        os.utime(tmp_path / "one" / name, ns=(1, before[0][1] + 1))
        after = look(tmp_path)[1]
        assert after != before, name
        before = after
