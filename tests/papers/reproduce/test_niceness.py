"""Runs at a low priority leave the cores to other work."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import os
from pathlib import Path
from fedflat.papers.reproduce.child import set_niceness
set_niceness(7)
group = Path("/proc/self/autogroup")
print(os.nice(0), group.read_text().split()[-1] if group.exists() else 7)
"""


@pytest.mark.usefixtures("warm_processes")
def test_the_process_and_its_group_set_niceness() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
    )
    assert done.stdout.split() == [str(min(19, os.nice(0) + 7)), "7"]
