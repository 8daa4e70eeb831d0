"""Killed at any moment, or stopped by Ctrl-C, and taken up again: the same bytes as never stopped.

Real processes, real signals, at points where a process has stopped itself. `make test-hostile`
kills at moments that it draws.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from shlex import quote

import pytest

from experiments.killing import ON, ROUNDS, RUN, begin_or_go_on, newest, same_as_never_stopped
from experiments.small import children, ended, kill_when_stopped, rows, start, wait_until_stopped
from experiments.stopping import CHECKPOINT
from fedflat.cli import main


@pytest.mark.slow
@pytest.mark.parametrize(
    "config", [("--threads", "1"), ("--workers", "2")], ids=["alone", "workers"]
)
def test_killed_and_resumed(tmp_path: Path, config: tuple[str, ...]) -> None:
    folder = tmp_path / "run"
    for reached in (70, 140):
        kill_when_stopped(begin_or_go_on(folder, *config, stop_after=(CHECKPOINT, 70)))
        assert newest(folder) == reached
    end = begin_or_go_on(folder, *config)
    _, errors = end.communicate()
    assert (end.returncode, errors) == (0, "")
    assert same_as_never_stopped(folder)


@pytest.mark.slow
@pytest.mark.parametrize("after", ["make_folder", "DiskRunFolder.create"])
def test_killed_while_it_starts(tmp_path: Path, after: str) -> None:
    """When the folder is there, and when it has become a run."""
    folder = tmp_path / "run"
    words = ("--on", ON, "--rounds", "5", "--quiet", "--model", "logistic", "--threads", "1")
    stop = (f"fedflat.experiments.run_folder.run_folder:{after}", 1)
    kill_when_stopped(start("run", "fedavg", *words, "--out", str(folder), stop_after=stop))
    assert (folder / "run.json").exists() == (after == "DiskRunFolder.create")
    again = (
        ["resume", str(folder), "--quiet"]
        if (folder / "run.json").exists()
        else ["run", "fedavg", *words]
    )
    assert main([*again, *([] if again[0] == "resume" else ["--out", str(folder)])]) == 0
    assert [row["round"] for row in rows(folder)] == [1, 2, 3, 4, 5]


def stopped(process: subprocess.Popen[str], folder: Path, status: int = 130) -> None:
    """Exit status, message, checkpoint; and the same bytes in the end."""
    output, errors = process.communicate()
    assert process.returncode == status
    assert output == ""
    assert "Traceback" not in errors
    assert (
        f"A checkpoint was written. Continue with: fedflat resume {quote(str(folder))}\n" in errors
    )
    assert errors.endswith("fedflat: stopped.\n")
    assert 0 < newest(folder) < ROUNDS
    record = json.loads((folder / "run.json").read_text())
    assert record["status"] == "running"
    # Workers change no bit, and starting them takes seconds: it goes on without.
    (folder / "run.json").write_text(
        json.dumps({**record, "how": {**record["how"], "workers": 0, "threads": 1}})
    )
    assert main(["resume", str(folder), "--quiet"]) == 0
    assert same_as_never_stopped(folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_what_schedulers_send(tmp_path: Path, number: int) -> None:
    """No checkpoint was due for days: the one there is comes from the signal."""
    folder = tmp_path / "run"
    words = (*RUN, "--threads", "1", "--checkpoint-every", "1000000", "--out", str(folder))
    process = start(
        *words, stop_after=("fedflat.experiments.run_folder.run_folder:DiskRunFolder.write", 1)
    )
    wait_until_stopped(process)
    assert newest(folder) == 0
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    stopped(process, folder, 128 + number)


@pytest.mark.parametrize(
    "number", [signal.SIGHUP, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_a_signal_to_the_whole_group_reaches_the_workers_too(tmp_path: Path, number: int) -> None:
    """A terminal sends it to all; no process is left, none prints an error."""
    folder = tmp_path / "run"
    process = start(
        *RUN,
        "--workers",
        "2",
        "--out",
        str(folder),
        start_new_session=True,
        stop_after=(CHECKPOINT, 1),
    )
    wait_until_stopped(process)
    family = children(process.pid)
    assert len(family) >= 2
    os.killpg(process.pid, number)
    process.send_signal(signal.SIGCONT)
    stopped(process, folder, 128 + number)
    ended(*family)


@pytest.mark.slow
@pytest.mark.parametrize("started", [1, 2])
def test_ctrl_c_while_workers_start(tmp_path: Path, started: int) -> None:
    folder = tmp_path / "run"
    stop = ("multiprocessing.process:BaseProcess.start", started)
    process = start(
        *RUN, "--workers", "2", "--out", str(folder), start_new_session=True, stop_after=stop
    )
    wait_until_stopped(process)
    family = children(process.pid)
    assert len(family) > started  # the process that multiprocessing cleans up with is there too
    os.killpg(process.pid, signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in errors
    written = "A checkpoint" if newest(folder) else "No checkpoint"
    assert f"{written} was written. Continue with: fedflat resume {quote(str(folder))}\n" in errors
    ended(*family)


@pytest.mark.parametrize("module", ["argparse", "numpy.version", "torch.types"])
def test_ctrl_c_while_it_imports(tmp_path: Path, module: str) -> None:
    """One line and nothing else, when so much has been imported. It cannot go far beyond: its pipe
    is full soon."""
    words = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "fedflat",
        *RUN,
        "--out",
        str(tmp_path / "run"),
    ]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, pipesize=4096) as process:
        assert process.stderr is not None
        while not process.stderr.readline().rstrip().endswith(f" {module}"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read()
    assert process.returncode == 130
    assert [line for line in errors.splitlines() if not line.startswith("import time:")] == [
        "fedflat: stopped before it began. Nothing was written."
    ]
    assert not (tmp_path / "run").exists()
