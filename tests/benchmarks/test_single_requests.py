"""The benchmarks of single requests and of growth, in small."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def printed(script: str, *words: str) -> list[str]:
    command = [sys.executable, str(BENCHMARKS / script), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.slow
def test_requests_are_compared_with_a_plain_loop() -> None:
    lines = printed("single_requests.py", "--size", "small", "--repeats", "1")
    assert [line.split()[0] for line in lines] == ["resnet20", "char_lstm", "mlp"]
    assert all(float(line.split()[1]) > 0 for line in lines)


@pytest.mark.slow
def test_slopes_are_printed() -> None:
    lines = printed("slopes.py", "--only", "clients", "stack", "--sizes", "2", "--seconds", "0.1")
    form = r"(clients|stack): slope -?\d+\.\d\d; ms at [\d,]+: \d+\.\d\d, [\d,]+: \d+\.\d\d"
    assert len(lines) == 2
    assert all(re.fullmatch(form, line) for line in lines)
