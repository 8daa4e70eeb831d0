"""The benchmark of segmentation, in small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "segmentation.py"


@pytest.mark.slow
def test_it_says_ratios_and_memory() -> None:
    words = ["--scenes", "4", "--repeats", "1", "--size", "32x64", "--batch", "2", "--model", "small_unet(width=4)"]
    done = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, check=True)
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == [
        "small_unet(width=4): 6,479 parameters, batches of 2 crops of 16x32", "a visit, of the speed of bare PyTorch",
        "decoded by the pool, of the speed from memory", "decoded without the pool, likewise",
        "memory of a visit, bare", "memory of a visit, ours",
    ]  # fmt: skip
