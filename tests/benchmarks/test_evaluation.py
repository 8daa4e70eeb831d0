"""The benchmark of evaluation, in small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "evaluation.py"


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--batches"]])
def test_it_prints_times_and_shares(more: list[str]) -> None:
    words = ["--size", "small", "--examples", "600", "--repeats", "1", "--model", "tiny_convnet"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words, *more], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    if more:
        assert "batches of 256: 1.00 of the speed of 256" in lines
        return
    assert lines[0] == "scores of the workers equal those of one thread: True"
    assert [line.split(":")[0] for line in lines[1:5]] == [
        "round",
        "here",
        "workers",
        "workers to main process, times as fast",
    ]
    assert all(0 < float(line.split()[-1]) < 1 for line in lines[5:])
    assert len(lines) == 9
