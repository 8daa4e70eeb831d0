"""On a terminal: a live line that is gone over again and again. A real pseudo-terminal, a real process."""

from __future__ import annotations

import os
import pty
import re
from pathlib import Path

import pytest

from runs.small import ON, start

QUICK = ("--on", ON, "--clients-per-round", "2", "--rounds", "30", "--model", "logistic", "--threads", "1")


def on_a_terminal(*words: str) -> tuple[int, str, str]:
    """Exit status, standard output (a pipe), and what the terminal saw on standard error."""
    ours, theirs = pty.openpty()
    process = start(*words, stderr=theirs, stdin=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # how a terminal says that its other end was closed
            break
        seen += piece
    os.close(ours)
    said, _ = process.communicate(timeout=60)
    return process.returncode, said, seen.decode()


def test_a_live_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("compare", "fedavg", "sam(rho=0.05)", *QUICK, "--out", str(tmp_path / "study"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    status, said, seen = on_a_terminal(*words)
    assert status == 0
    assert "sam(rho=0.05)" in said
    assert "\x1b" not in said  # what goes into a file is plain
    assert "\x1b[1A" in seen or "\x1b[2K" in seen  # a line that is gone over
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen)
    assert "[1/2] fedavg()" in plain
    assert "round 30/30" in plain.replace("\r\n", " ")
    assert "everything is in" in plain
