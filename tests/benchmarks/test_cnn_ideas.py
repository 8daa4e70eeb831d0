"""The benchmark of ideas for the papers' CNN, in small."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "cnn_ideas.py"
IDEAS = ["direct", "product", "pooling", "bf16", "stack", "large"]
"""Those that need no compiler."""


@pytest.mark.slow
def test_ideas_have_the_same_gradient() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--batch", "4", "--repeats", "1", "--only", *IDEAS],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == IDEAS
    for line in lines:
        error = re.search(r"error (\S+),", line)
        assert error is not None
        assert float(error[1]) < (0.3 if line.startswith("bf16") else 1e-5), line
