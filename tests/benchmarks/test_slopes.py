"""The benchmark of growth, in small."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "slopes.py"


@pytest.mark.slow
def test_slopes_are_printed() -> None:
    words = ["--only", "clients", "stack", "--sizes", "2", "--seconds", "0.1"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words], capture_output=True, text=True, check=True
    )
    form = r"(clients|stack): slope -?\d+\.\d\d; ms at [\d,]+: \d+\.\d\d, [\d,]+: \d+\.\d\d"
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all(re.fullmatch(form, line) for line in lines)
