"""The benchmarks of executors and of a deployment, in small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from fedflat.deploy.transport import missing_packages

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing_packages()), reason="needs the extra fedflat[deploy]"),
]


def printed(script: str, *words: str, **environment: str) -> list[str]:
    """The lines that a benchmark prints."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")
def test_the_overhead_of_each_executor(tmp_path: Path) -> None:
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("ab" * 32)
    words = ("--sizes", "8", "--requests", "2", "--repeats", "1")
    lines = printed("executor_overhead.py", *words, HOME=str(tmp_path), RAY_AUTH_MODE="token")
    assert [line.split()[0] for line in lines] == ["load", "workers", "ray", "deployed"]


def test_rounds_of_light_nodes() -> None:
    words = ("--registered", "3", "--per-round", "2", "--megabytes", "0.1", "--rounds", "2")
    [line] = printed("deploy_scale.py", *words, "--processes", "1")
    found = json.loads(line)
    assert (found["registered"], len(found["seconds of rounds"])) == (3, 2)
    assert 1 < found["bytes over least"] < 1.5
