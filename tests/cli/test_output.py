"""Output that cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedflat.cli import main

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize("buffered", [True, False], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    "words",
    [["list", "methods"], ["--help"], ["--version"], ["list", "presets", "man"]],
    ids=" ".join,
)
def test_output_that_cannot_be_written(words: list[str], buffered: bool) -> None:
    """It ended in a traceback, or in status 0 as if it had been written."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    env |= {} if buffered else {"PYTHONUNBUFFERED": "1"}
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fedflat", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
    why = "No space left on device"
    assert (
        done.stderr
        == f"fedflat: error: the output could not be written: {why}. Send it elsewhere.\n"
    )
    assert done.returncode == 1


def test_another_error_of_the_system_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(args: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("fedflat.cli.verbs.list.run", fails)
    with pytest.raises(OSError, match="Input/output error"):
        main(["list", "methods"])
