"""Real tables from the command line: stopped, killed, cut and resumed."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from experiments.small import FEDFLAT, alive, children, final, rows, timeless, wait_for
from fedflat.cli import main
from fedflat.errors import SpellingError
from fedflat.experiments.run_folder.checkpoints import Store
from fedflat.papers.reproduce.plan import open_plan
from fedflat.papers.reproduce.selection import cells_of, find_table
from warm_python import warm_starts

ROUNDS = 300
SETTINGS: dict[str, Any] = {
    "on": "digits(lda(0), clients=10)",
    "model": "mlp(hidden=[8])",
    "rounds": ROUNDS,
    "clients_per_round": 2,
    "eval_every": 2,
    "eval_last": 3,
    "lr": "cosine(0.1, 0.01, 300)",
}
ROWS: list[dict[str, Any]] = [
    {"name": "plain", "method": "fedavg()", "reported": 50.0, "spread": 0.5},
    {"name": "wima", "method": "fedavg() + wima(window=3)", "reported": 60.0},
    {
        "name": "gloss",
        "method": "fedgloss(rho_s=0.05, rho_l=0.05, T_s=150)",
        "reported": 70.0,
        "spread": 0.5,
    },
]
RUNS = ("plain/seed-0", "gloss/seed-0")


def table(folder: Path) -> str:
    path = folder / "mine.json"
    path.write_text(json.dumps({"settings": SETTINGS, "rows": ROWS}))
    return str(path)


def reproduce(*words: object) -> int:
    with warm_starts():
        return main(["reproduce", "--quiet", "--nice", "0", "--jobs", "2", *map(str, words)])


def begin(*words: object) -> subprocess.Popen[str]:
    command = [
        FEDFLAT,
        "reproduce",
        *map(str, words),
        "--nice",
        "0",
        "--jobs",
        "2",
        "--checkpoint-every",
        "0",
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def read_cells(out: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads((out / "table.json").read_text())["cells"]
    return cells


def same(a: Path, b: Path) -> bool:
    return all(
        timeless(rows(a / run)) == timeless(rows(b / run)) and final(a / run) == final(b / run)
        for run in RUNS
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table at once."""
    folder = tmp_path_factory.mktemp("whole")
    assert reproduce(table(folder), "--out", folder / "out") == 0
    return folder / "out"


def test_two_runs_give_three_cells(whole: Path) -> None:
    record = json.loads((whole / "table.json").read_text())
    plain, wima, gloss = record["cells"]
    assert [cell["runs"] for cell in (plain, wima, gloss)] == [[RUNS[0]], [RUNS[0]], [RUNS[1]]]
    last = [row["models"] for row in rows(whole / RUNS[0])][-3:]
    assert plain["ours"] == pytest.approx(
        100 * sum(models["server"]["accuracy"] for models in last) / 3, abs=1e-4
    )
    assert wima["ours"] == pytest.approx(
        100 * sum(models["wima"]["accuracy"] for models in last) / 3, abs=1e-4
    )
    assert [cell["evaluations"] for cell in (plain, wima, gloss)] == [3, 3, 3]
    assert plain["verdict"] in ("within the paper's spread", "differs")
    assert plain["by_seed"][0]["curve"][-1][0] == ROUNDS


def test_the_files_say_how_they_were_made(whole: Path) -> None:
    text = (whole / "table.md").read_text()
    assert "| plain | `fedavg()` | 50.0 ± 0.5 |" in text
    assert "±1 point is assumed" in text  # for wima
    assert "fedflat 0." in text
    assert "torch" in text
    written = [
        line for line in (whole / "table.csv").read_text().splitlines() if not line.startswith("#")
    ]
    assert [row["cell"] for row in csv.DictReader(written)] == [
        "mine/plain",
        "mine/wima",
        "mine/gloss",
    ]
    assert (whole / "accuracy.png").stat().st_size > 1000
    assert "50" in (whole / "accuracy.svg").read_text()


def test_the_table_anew_without_running(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (whole / "table.md").read_text()
    (whole / "table.md").unlink()
    assert reproduce(whole, "--table") == 0
    assert (whole / "table.md").read_text() == before
    assert "gloss" in capsys.readouterr().out


def test_a_study_like_any_other(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", str(whole), "--quiet"]) == 0
    assert "fedgloss" in capsys.readouterr().out


@pytest.mark.slow
def test_more_cores_for_each_run_give_the_same_bits(whole: Path, tmp_path: Path) -> None:
    mine, out = table(tmp_path), tmp_path / "out"
    assert reproduce(mine, "--out", out, "--rounds", 4) == 0
    assert reproduce(mine, "--out", out, "--rounds", 40, "--workers", 2) == 0
    for run in RUNS:
        made = [row for row in timeless(rows(out / run)) if row["round"] % 2 == 0]
        assert made[-1]["round"] == 40
        assert made == [row for row in timeless(rows(whole / run)) if row["round"] <= 40]
    config = json.loads((out / RUNS[0] / "run.json").read_text())["how"]
    assert (config["executor"], config["workers"], config["threads"]) == ("workers", 2, 1)


@pytest.mark.slow
def test_cut_and_resumed_is_the_whole(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, out = table(tmp_path), tmp_path / "out"
    assert reproduce(mine, "--out", out, "--rounds", 4) == 0
    assert [row["round"] for row in rows(out / RUNS[0])] == [2, 3, 4]
    assert not (out / RUNS[0] / "final.safetensors").exists()
    cells = json.loads((out / "table.json").read_text())["cells"]
    assert [(cell["rounds"], cell["evaluations"]) for cell in cells] == [(4, 3)] * 3
    assert {cell["verdict"] for cell in cells} <= {"right order", "not decided yet"}
    assert "4 of 300" in (out / "table.md").read_text()
    assert open_plan(out).waiting() == []

    saved = (
        out / RUNS[1] / "run.json"
    ).read_text()  # a run that fails is named, and the other goes on
    (out / RUNS[1] / "run.json").write_text(json.dumps({**json.loads(saved), "fedflat": "0.0.1"}))
    assert reproduce(mine, "--out", out) == 2
    assert "was made by fedflat 0.0.1" in capsys.readouterr().err
    rounds = [(cell["by_seed"][0]["status"], cell["rounds"]) for cell in read_cells(out)]
    assert rounds == [("done", ROUNDS), ("done", ROUNDS), ("damaged", 0)]
    (out / RUNS[1] / "run.json").write_text(saved)
    assert [job.folder for job in open_plan(out).waiting()] == [RUNS[1]]

    assert reproduce("--resume", out, "--rounds", ROUNDS) == 0
    for run in RUNS:
        assert final(out / run) == final(whole / run)
        known = {row["round"]: row for row in timeless(rows(whole / run))}
        assert [row for row in timeless(rows(out / run)) if row["round"] in known] == list(
            known.values()
        )
    output = [made["command"].split()[-2:] for made in open_plan(out).commands]
    assert output == [["--rounds", "4"], ["--out", str(out)], ["--rounds", "300"]]


def test_one_model_average_more(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("--cells", "plain", "--add-average", "ema(gamma=0.5)", "--rounds", 2, "--out", out)
    assert reproduce(table(tmp_path), *words) == 0
    cells = json.loads((out / "table.json").read_text())["cells"]
    assert [(cell["cell"], cell["verdict"]) for cell in cells] == [
        ("mine/plain", "not decided yet"),
        ("mine/plain+ema", "no number to compare"),
    ]
    assert cells[0]["runs"] == cells[1]["runs"]
    assert "ema" in rows(out / "plain/seed-0")[-1]["models"]


@pytest.mark.slow
def test_a_cell_asked_for_is_run_alone_and_the_whole_folder_by_its_name(tmp_path: Path) -> None:
    mine, out = table(tmp_path), tmp_path / "out"
    assert reproduce(mine, "--out", out, "--rounds", 2) == 0
    shutil.rmtree(out / RUNS[1])
    assert reproduce(mine, "--cells", "plain", "--out", out, "--rounds", 4) == 0
    assert [cell["rounds"] for cell in read_cells(out)] == [
        4,
        2,
        0,
    ]  # the second, of the same run, stops where it was
    assert reproduce("--resume", out, "--rounds", 4) == 0
    assert [cell["rounds"] for cell in read_cells(out)] == [4, 4, 4]


@pytest.mark.slow
def test_stopped_three_ways_and_resumed_is_the_same_to_the_byte(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, out = table(tmp_path), tmp_path / "out"
    for config in (signal.SIGINT, signal.SIGKILL, signal.SIGTERM):
        before = {run: newest(out / run) for run in RUNS}
        going = begin(mine, "--out", out)
        wait_for(lambda old=before: any(newest(out / run) > old[run] for run in RUNS), "rounds")  # type: ignore[misc]
        runs = children(going.pid)
        if config is signal.SIGINT:
            assert len(runs) == 2
            assert reproduce("--resume", out) == 2
            assert "another process is working in" in capsys.readouterr().err
        os.kill(going.pid, config)
        _, output = going.communicate()
        if (
            config is signal.SIGKILL
        ):  # no process reads their output any more: they write a checkpoint and end
            wait_for(lambda pids=runs: not any(map(alive, pids)), "the end of the runs")  # type: ignore[misc]
        else:
            assert going.returncode == 130, output
            assert not any(map(alive, runs))
            assert f"fedflat reproduce --resume {out}" in output
            assert (out / "table.md").exists()
        assert any(newest(out / run) < ROUNDS for run in RUNS)
    assert reproduce("--resume", out) == 0
    assert same(out, whole)


def newest(run: Path) -> int:
    """The round of the last checkpoint."""
    return max(Store(run / "checkpoint").rounds(), default=0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no table was given. Name one"),
        (("toy", "--rounds", 0), "rounds must be a whole number of at least 1, found 0"),
        (("toy", "--jobs", 0), "jobs must be a whole number of at least 1, found 0"),
        (("toy", "--workers", 0), "workers must be a whole number of at least 1, found 0"),
        (
            ("toy", "--nice", 20),
            "nice must be a whole number of at least 0 and at most 19, found 20",
        ),
        (
            ("toy", "--checkpoint-every", -1),
            "checkpoint-every must be a number of at least 0, found -1",
        ),
        (("toy", "--seeds", "x"), "--seeds must be a number of seeds (3) or a list"),
        (("toy", "--seeds", "1,1"), "--seeds must be a number of seeds (3) or a list"),
        (("toy", "--table"), "--table needs a folder of runs, found 'toy'"),
        (("--resume", "nowhere"), "nowhere is not a folder of `fedflat reproduce`"),
        (("toy", "--cells", "fedavg", "--add-average", "wimma()"), "unknown method 'wimma'"),
    ],
)
def test_refusals(
    words: tuple[object, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert reproduce(*words) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.json"))


def test_a_folder_with_something_else_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("precious")
    assert reproduce("toy", "--out", tmp_path / "out") == 2
    assert "contains other files" in capsys.readouterr().err


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce("man/table5", "--list") == 0
    assert "man/cifar10-delta0.3-fedavg-man" in capsys.readouterr().out


def listed(output: str) -> list[str]:
    """The names between the title and the foot."""
    return [line.split()[0] for line in output.splitlines()[1:-2]]


@pytest.mark.parametrize("pattern", ["cifar10-cnn-alpha0-*repo*", "*-fedsam,*-{fedavg,feddyn}"])
def test_the_list_has_the_cells_that_a_run_would_select(
    pattern: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = find_table("fedgloss/table3")
    assert reproduce("fedgloss/table3", "--list") == 0
    assert listed(capsys.readouterr().out) == [cell.name for cell in table.cells]
    assert reproduce("fedgloss/table3", "--list", "--cells", pattern) == 0
    selected = [cell.name for cell in cells_of(table, [pattern])]
    assert listed(capsys.readouterr().out) == selected
    assert 0 < len(selected) < len(table.cells)


def test_a_list_of_no_cells_is_refused_as_a_run_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce("fedgloss/table3", "--list", "--cells", "*-fedavg", "*-fedsan") == 2
    with pytest.raises(SpellingError) as refused:
        cells_of(find_table("fedgloss/table3"), ["*-fedavg", "*-fedsan"])
    shown = capsys.readouterr()
    assert shown.out == ""
    assert str(refused.value) in shown.err


def test_the_list_has_the_cells_that_options_add(capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--add-average", "swa()", "--flatness", "lambda_1", "--target", "50")
    assert reproduce("toy", "--list", "--cells", "fedavg", *more) == 0
    both = ["toy/fedavg", "toy/fedavg+swa"]
    added = [f"{name}@{word}" for word in ("lambda_1", "50") for name in both]
    assert listed(capsys.readouterr().out) == [*both, *added]
