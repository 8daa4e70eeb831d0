"""The live progress line, on a real pseudo-terminal in a real process."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import termios
from pathlib import Path

import pytest

from experiments.small import ON, start

QUICK = (
    "--on",
    ON,
    "--clients-per-round",
    "2",
    "--rounds",
    "30",
    "--model",
    "logistic",
    "--threads",
    "1",
)


def on_a_terminal(
    *words: str, columns: int = 80, stop_at: bytes | None = None, both: bool = False
) -> tuple[int, str, str]:
    """Exit status, standard output (a pipe, unless both go to the terminal), and what the terminal
    saw."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = start(*words, stderr=theirs, stdin=theirs, **({"stdout": theirs} if both else {}))
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # how a terminal says that its other end was closed
            break
        seen += piece
        if stop_at is not None and stop_at in seen:
            process.send_signal(signal.SIGINT)
            stop_at = None
    os.close(ours)
    output, _ = process.communicate()
    return process.returncode, output, seen.decode()


def plain(seen: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen)


def screen(seen: str) -> list[str]:
    """The lines a terminal shows after all that: it goes up, erases lines, and writes."""
    lines, row, column = [""], 0, 0
    for code, text in re.findall(r"\x1b\[([0-9;?]*[a-zA-Z])|([^\x1b])", seen):
        if code.endswith("A"):
            row -= int(code[:-1])
        elif code == "2K":
            lines[row] = ""
        elif text == "\r":
            column = 0
        elif text == "\n":
            row += 1
            lines += [""] * (row == len(lines))
        elif text:
            lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + 1 :]
            column += 1
    return lines


@pytest.fixture(autouse=True)
def a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.mark.parametrize(
    ("columns", "name"),
    [(60, "fedsam + swa"), (120, "fedsam(rho=warmup(0.01, 0.05, 20)) + swa(), seed 0")],
)
def test_a_live_line(tmp_path: Path, columns: int, name: str) -> None:
    """One line at every width, with round, accuracy and time left; what goes into a file is
    plain."""
    words = ("fedsam(rho=warmup(0.01, 0.05, 20)) + swa()", *QUICK, "--out", str(tmp_path / "run"))
    status, output, seen = on_a_terminal("run", *words, columns=columns)
    assert status == 0
    assert "fedsam(rho=warmup(0.01, 0.05, 20)) + swa()" in output
    assert "\x1b" not in output
    assert "\x1b[2K" in seen  # a line that is gone over
    messages = re.findall(r"round \d+/30  [^\r\n]*", plain(seen))
    assert all(len(line) < columns for line in messages)
    loss = r"train loss \S+  " if columns == 120 else ""
    assert re.search(rf"^round 30/30  test \S+ % \(round 30\)  {loss}done  ", messages[-1])
    assert f"  {name}" in messages[-1]
    running = [line for line in messages[1:-1] if "round 30/" not in line]
    assert all(
        re.search(rf" %( \(round \d+\))?  {loss}(\d+[hms])+ left(  |$)", line) for line in running
    )
    assert "Results are in" in plain(seen)


def test_ctrl_c_leaves_one_clean_line(tmp_path: Path) -> None:
    words = ("run", "fedavg", *QUICK, "--rounds", "100000", "--out", str(tmp_path / "run"))
    status, output, seen = on_a_terminal(*words, columns=60, stop_at=b"% ")
    assert (status, output) == (130, "")
    shown = screen(seen)
    assert sum("/100000" in line for line in shown) == 1
    last, config, end, nothing = shown[-4:]
    assert re.fullmatch(
        r"round \d+/100000  test \S+ %( \(r(ound )?\d+\))?  \S+ left(  fedavg)?", last
    )
    assert config.startswith("A checkpoint was written. Continue with: fedflat resume ")
    assert (end, nothing) == ("fedflat: stopped.", "")


@pytest.mark.slow
def test_a_study_shows_its_time_left(tmp_path: Path) -> None:
    """On a terminal of sixty columns, and in a file."""
    words = (
        "compare",
        "fedavg",
        "fedsam",
        *QUICK,
        "--rounds",
        "300",
        "--eval-every",
        "10",
        "--out",
    )
    status, _, seen = on_a_terminal(*words, str(tmp_path / "screen"), columns=60)
    assert status == 0
    shown = [line for line in screen(seen) if line.startswith("[")]
    assert len(shown) == 2
    assert re.fullmatch(r"\[1/2\]  round 300/300  test \S+ %  done( \(study \S+ left\))?", shown[0])
    assert re.search(r"round \d+/300  .*(\d+s left \(study \S+\)|  study \S+ left)", plain(seen))
    assert re.fullmatch(
        r"\[2/2\]  round 300/300  test \S+ %( \(round 300\))?  done  fedsam", shown[1]
    )
    output = start(*words, str(tmp_path / "file")).communicate(timeout=100)[1]
    assert "\x1b" not in output
    assert re.search(
        r"\[1/2\] fedavg\(\), seed 0\n  round 1/300  train loss \S+  \S+ left \(study \S+\)  \S+ samples/s\n",
        output,
    )
    assert re.search(
        r"\n  round 300/300  test \S+ % \(round 300\)  train loss \S+  done \(study \S+ left\)  ",
        output,
    )


def test_a_table_is_as_wide_as_the_terminal(tmp_path: Path) -> None:
    words = (
        "compare",
        "fedavg",
        "fedsam(rho=warmup(0.01, 0.05, 20)) + swa()",
        *QUICK,
        "--rounds",
        "2",
        "--quiet",
    )
    status, _, seen = on_a_terminal(*words, "--out", str(tmp_path / "both"), columns=60, both=True)
    assert status == 0
    tables = plain(seen).partition("Accuracy and loss on the test set")[0].splitlines()
    assert max(map(len, tables)) <= 60
    parts = [line for line in tables if line.startswith("method ")]
    assert len([line for line in tables if line.startswith("fedavg() ")]) == len(parts) > 1
    assert parts[-1].endswith("samples/s")
