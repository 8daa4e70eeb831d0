"""The benchmark of single requests, in small."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "networks.py"


@pytest.mark.slow
def test_the_bare_loop_makes_the_same_steps() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--size", "small", "--repeats", "1"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["resnet20", "bisenetv2", "char_lstm"]
    for line in lines:
        difference = re.search(r"the steps differ by (\S+)$", line)
        assert difference is not None
        assert float(difference[1]) < 1e-3, line
