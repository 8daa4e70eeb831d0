"""The benchmark of commands that train nothing, in small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fedflat as ff

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "startup.py"
COMMANDS = ("--help", "list", "list methods", "list presets", "report", "table")


@pytest.mark.slow
def test_the_seconds_of_each_command_are_printed(tmp_path: Path) -> None:
    ff.run(
        "fedavg", on="digits(clients=4)", rounds=1, clients_per_round=2, out=tmp_path, quiet=True
    )
    words = [sys.executable, str(SCRIPT), str(tmp_path), "--repeats", "1"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    named = [line.rpartition(": ") for line in lines]
    assert [name.partition(": fedflat ")[2] for name, _, _ in named[:-1]] == [*COMMANDS]
    bare = float(named[-1][2].split()[0])
    assert all(float(rest.split()[0]) > bare > 0 for _, _, rest in named[:-1])
    assert not (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_a_command_that_fails_is_no_measurement(tmp_path: Path) -> None:
    words = [sys.executable, str(SCRIPT), str(tmp_path / "missing"), "--repeats", "1"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "report" in done.stderr
