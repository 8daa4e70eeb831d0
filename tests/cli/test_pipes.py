"""A reader of standard output or error that closes: the command finishes its work, with status
0."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fedflat
from experiments.small import FEDFLAT, ON, rows
from fedflat.experiments.execution_config import ExecutionConfig
from fedflat.experiments.study import run_one

QUICK = (
    "--on",
    ON,
    "--clients-per-round",
    "2",
    "--rounds",
    "4",
    "--model",
    "logistic",
    "--threads",
    "1",
)
WAITING = """
import sys
from fedflat.cli.main import main
from fedflat.experiments.console import ConsoleReporter

print_line = ConsoleReporter.print_line

def print_and_wait(self, text):
    print_line(self, text)
    ConsoleReporter.print_line = print_line
    sys.stdin.readline()

ConsoleReporter.print_line = print_and_wait
sys.exit(main(sys.argv[1:]))
"""
"""The command line, which waits for a line on standard input after its first line of progress."""


def without_reader(*words: object, both: bool = True) -> tuple[int, str]:
    """The exit status of a command whose output, or standard error only, is a pipe that no process
    reads; what it printed elsewhere."""
    ours, theirs = os.pipe()
    os.close(ours)
    streams = (
        {"stdout": theirs, "stderr": theirs}
        if both
        else {"stdout": subprocess.PIPE, "stderr": theirs}
    )
    try:
        done = subprocess.run(
            [FEDFLAT, *map(str, words)], text=True, timeout=240, check=False, **streams
        )
    finally:
        os.close(theirs)
    return done.returncode, done.stdout or ""


@pytest.mark.usefixtures("warm_processes")
def test_a_reader_leaves_after_the_first_line(tmp_path: Path) -> None:
    """As `fedflat run ... 2>&1 | head -1`."""
    ours, theirs = os.pipe()
    words = ("run", "fedavg", *QUICK, "--out", str(tmp_path / "run"))
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, *words],
        stdin=subprocess.PIPE,
        stdout=theirs,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    with open(ours) as reader:
        assert reader.readline().startswith(f"data {ON}")
    try:
        process.communicate("the reader has left\n", timeout=240)
    finally:
        process.kill()
    assert process.returncode == 0
    assert rows(tmp_path / "run")[-1]["round"] == 4
    assert (tmp_path / "run" / "final.safetensors").is_file()


@pytest.mark.usefixtures("warm_processes")
@pytest.mark.parametrize(
    ("both", "quiet"), [(True, ()), (False, ("--quiet",)), (True, ("--quiet",)), (False, ())]
)
def test_closed_pipe_of_run(tmp_path: Path, both: bool, quiet: tuple[str, ...]) -> None:
    """The table comes on standard output as long as that is read."""
    status, table = without_reader(
        "run", "fedavg", *QUICK, *quiet, "--out", tmp_path / "run", both=both
    )
    assert status == 0
    assert ("fedavg()" in table) is not both
    assert rows(tmp_path / "run")[-1]["round"] == 4
    assert (tmp_path / "run" / "final.safetensors").is_file()


@pytest.mark.usefixtures("warm_processes")
def test_closed_pipe_of_compare(tmp_path: Path) -> None:
    """The report, which is written after the table is printed, is there."""
    assert (
        without_reader("compare", "fedavg", "fedprox(0.1)", *QUICK, "--out", tmp_path / "both")[0]
        == 0
    )
    assert (tmp_path / "both" / "report.html").is_file()


@pytest.mark.usefixtures("warm_processes")
def test_closed_pipe_of_resume_and_analyse(tmp_path: Path) -> None:
    run = tmp_path / "run"
    exp = fedflat.experiment("fedavg", ON, rounds=4, clients_per_round=2, model="logistic")
    run_one(exp, ExecutionConfig(threads=1), run, until=2)
    assert without_reader("resume", run)[0] == 0
    assert rows(run)[-1]["round"] == 4
    assert (
        without_reader(
            "analyse", run, "--confusion", "--surface", "--points", "3", "--examples", "50"
        )[0]
        == 0
    )
    kinds = {json.loads(path.read_text())["kind"] for path in (run / "analysis").glob("*.json")}
    assert kinds >= {"confusion", "surface", "partition"}
    assert without_reader("report", run)[0] == 0
    assert (run / "report.html").is_file()


@pytest.mark.slow
def test_closed_pipe_of_reproduce(tmp_path: Path) -> None:
    settings = {"on": ON, "model": "logistic", "rounds": 2, "clients_per_round": 2}
    table = {"settings": settings, "rows": [{"name": "a", "method": "fedavg()"}]}
    (tmp_path / "mine.json").write_text(json.dumps(table))
    out = tmp_path / "out"
    assert (
        without_reader(
            "reproduce", tmp_path / "mine.json", "--out", out, "--nice", "0", "--jobs", "1"
        )[0]
        == 0
    )
    assert json.loads((out / "table.json").read_text())["cells"][0]["evaluations"] > 0


@pytest.mark.parametrize("words", [("list", "methods"), ("--help",), ("list", "presets")])
def test_closed_pipe_of_list(words: tuple[str, ...]) -> None:
    """Longer or shorter than what Python writes at once."""
    assert without_reader(*words)[0] == 0


@pytest.mark.usefixtures("warm_processes")
def test_closed_pipe_of_a_script(tmp_path: Path) -> None:
    """The same from Python."""
    script = (
        f"import fedflat\nfedflat.run('fedavg', on={ON!r}, model='logistic', rounds=4, clients_per_round=2, threads=1, "
        f"out={str(tmp_path / 'run')!r}, quiet=False)\n"
    )
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        done = subprocess.run(
            [sys.executable, "-c", script], stderr=theirs, timeout=240, check=False
        )
    finally:
        os.close(theirs)
    assert done.returncode == 0
    assert fedflat.load(tmp_path / "run") is not None
