"""Processes of a benchmark end with the process that started them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from experiments.small import alive, ended, wait_for

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TAKES_PART = """
import os, subprocess, sys, time
from pathlib import Path
from turns import Turns

turns = Turns("none", warm_up=1)
turns.round(1, lambda: 0.0)
helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
Path(sys.argv[1]).write_text(f"{os.getpid()} {helper.pid} ")
time.sleep(3600)
"""


def test_killed_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text(TAKES_PART)
    command = [sys.executable, str(tmp_path / "part.py"), str(tmp_path / "pids")]
    code = f"from process import Participant; Participant('one', {command!r}, 1).ask(1)"
    driver = subprocess.Popen([sys.executable, "-c", code], cwd=BENCHMARKS)
    wait_for(
        lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text().endswith(" "),
        "a turn",
    )
    family = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert all(map(alive, family))
    driver.kill()
    driver.wait()
    ended(*family)
