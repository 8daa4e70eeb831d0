"""The suite does not depend on the user's environment variables."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parents[1]
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
DRAWN: list[int] = []


def test_processes_that_a_test_starts_have_the_default_signals() -> None:
    code = f"import signal\nprint([signal.getsignal(getattr(signal, n)) is signal.SIG_IGN for n in {SIGNALS}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[False, False, False]\n"


@given(st.integers(0, 10**9))
@settings(max_examples=20)
def test_some_draws(number: int) -> None:
    DRAWN.append(number)


def test_the_draws() -> None:
    """Prints them for the tests below; alone it has none."""
    print("drawn", DRAWN)


def run_pytest(*words: str, **more: object) -> str:
    """The tests of this file that need no other process, in one of its own."""
    tests = [f"{__file__}::{name}" for name in ("test_some_draws", "test_the_draws")]
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *tests, *words]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL, **more
    )  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return re.findall(r"drawn (\[.+\])", done.stdout)[0]


def as_in_the_background() -> None:
    """As nohup and a script's & start a process: signals are ignored. Standard input is closed."""
    for name in SIGNALS:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    os.close(0)


def test_the_shell_changes_nothing_and_draws_are_fixed_or_those_of_a_seed() -> None:
    names = [
        test.__name__
        for test in (
            test_processes_that_a_test_starts_have_the_default_signals,
            test_variables_of_the_user_are_not_seen,
            test_there_is_a_standard_input_and_a_terminal_that_can_do_all,
        )
    ]
    bare = {
        **os.environ,
        "COLUMNS": "31",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "FEDFLAT_DATA": "/nowhere",
    }
    fixed = run_pytest(
        *(f"{__file__}::{name}" for name in names), preexec_fn=as_in_the_background, env=bare
    )
    again = run_pytest()
    fresh, same = (
        run_pytest("--hypothesis-profile=fresh", "--hypothesis-seed=1") for _ in range(2)
    )
    assert fixed == again != fresh == same


def test_no_property_test_has_a_deadline_or_draws_of_its_own() -> None:
    """What holds for all is in conftest.py."""
    own = re.compile(r"@settings\([^)]*(deadline|derandomize|database)\b|(register|load)_profile\(")
    found = [path for path in ROOT.glob("tests/**/*.py") if own.search(path.read_text())]
    assert found == [ROOT / "tests" / "conftest.py"]


def test_there_is_a_standard_input_and_a_terminal_that_can_do_all() -> None:
    assert sys.__stdin__ is not None
    assert os.environ["TERM"] == "xterm-256color"


@pytest.mark.parametrize("name", ["COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "FEDFLAT_DATA"])
def test_variables_of_the_user_are_not_seen(name: str) -> None:
    assert name not in os.environ
