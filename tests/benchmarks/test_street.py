"""The benchmark of the street world, in small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fedflat.data.street.weather import WEATHERS

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "street.py"


@pytest.mark.slow
def test_the_speed_in_each_weather_is_printed() -> None:
    words = [sys.executable, str(SCRIPT), "--pictures", "1", "--size", "16x32"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split()[0] for line in lines] == [*WEATHERS, "all"]
    assert all(int(line.split()[1]) > 0 for line in lines)
