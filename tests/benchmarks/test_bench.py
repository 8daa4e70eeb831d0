from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "benchmarks" / "bench.py"

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "part", ["one-core", "flatness", "w2", "w3", "w4", "w5", "cohorts", "start-up"]
)
def test_the_benchmark_runs_at_a_small_size(part: str, tmp_path: Path) -> None:
    """That it measures, not what: real processes, and each must train on as many examples as it was
    asked to."""
    output = subprocess.run(
        [
            sys.executable,
            str(BENCH),
            "--size",
            "small",
            "--only",
            part,
            "--repeats",
            "1",
            "--seconds",
            "0.01",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert output.returncode == 0, output.stderr
    found = json.loads((tmp_path / "bench.json").read_text())
    assert found["machine"]["torch"]
    assert found["figures"]
    for figure in found["figures"]:
        assert all(value > 0 for value in figure["values"]) or "beyond" in figure["what"]
        assert figure["what"] in output.stdout


def test_methods_beside_each_other() -> None:
    output = subprocess.run(
        [sys.executable, str(BENCH.with_name("rounds.py")), "fedavg", "feddyn", "--repeats", "1"],
        capture_output=True,
        text=True,
    )
    assert output.returncode == 0, output.stderr
    lines = output.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["fedavg", "feddyn", "bare"]
    messages = lines[4].partition(": ")[2].split(" estimated ")
    found, expected = (int(part.split()[0].replace(",", "")) for part in messages)
    assert found == pytest.approx(expected, rel=0.01)
