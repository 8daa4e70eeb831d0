"""The benchmark of segmentation, in small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "segmentation.py"
SETUP = "small_unet(width=4), 6,479 parameters, batches of 2 crops of 16x32, files of 64x128"


@pytest.mark.slow
def test_ratios_and_memory_are_printed() -> None:
    words = [
        "--scenes",
        "8",
        "--repeats",
        "1",
        "--size",
        "32x64",
        "--files",
        "64x128",
        "--batch",
        "2",
    ]
    words += ["--model", "small_unet(width=4)"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words], capture_output=True, text=True, check=True
    )
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == [
        f"request: {SETUP}",
        "a request, of the speed of bare PyTorch",
        f"loader: {SETUP}",
        "decoding by itself, of the time of a request",
        "decoded by the pool, of the speed from memory",
        "decoded without the pool, likewise",
        f"memory: {SETUP}",
        "memory of a request, bare",
        "memory of a request, ours",
    ]
