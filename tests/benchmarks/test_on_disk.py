"""The benchmark of pictures in files, in small; it holds the bits itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "on_disk.py"


@pytest.mark.slow
def test_two_ratios_are_printed() -> None:
    words = [
        "--pictures",
        "40",
        "--clients",
        "2",
        "--rounds",
        "1",
        "--repeats",
        "1",
        "--model",
        "mlp(hidden=[4])",
    ]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words], capture_output=True, text=True, check=True
    )
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == [
        "a tenth of the pictures kept",
        "all of them",
    ]
