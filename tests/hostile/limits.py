"""Command lines carried out here, within the time they may take."""

from __future__ import annotations

import io
import re
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from fedflat.cli import main

SECONDS = 60
"""The longest anything may take, by the clock: far more than it does, for the machine may be
busy."""


class Hang(BaseException):
    """It took too long. No ``except Exception`` of ours swallows it."""


class CommandOutput(NamedTuple):
    """What a command line came to."""

    status: int
    out: str
    err: str


@contextmanager
def limited() -> Iterator[None]:
    """`Hang` after `SECONDS`; warnings are errors."""

    def end(number: int, frame: Any) -> NoReturn:
        raise Hang(f"no end after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def carried_out(*words: str, where: Path = Path()) -> CommandOutput:
    """Carry out a command line in a folder: done, or refused with a sentence; anything else is an
    AssertionError."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with chdir(where), limited(), redirect_stdout(out), redirect_stderr(err):
            status = main(words)
    except SystemExit as ended:  # of argparse
        status = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise AssertionError(f"{shortened(words)}: {type(error).__name__}: {error}") from error
    output = CommandOutput(status, out.getvalue(), err.getvalue())
    assert status in (0, 2), f"{shortened(words)}: {output}"
    assert "Traceback" not in output.out + output.err, f"{shortened(words)}: {output}"
    assert (output.out + output.err).strip(), f"{shortened(words)}: nothing was said"
    if status == 2:
        assert re.search("^fedflat.*: .", output.err, re.MULTILINE), f"{shortened(words)}: {output}"
    return output


def shortened(words: Sequence[str]) -> list[str]:
    """Words that may be very long, to be shown."""
    return [word if len(word) < 60 else f"{word[:40]}...({len(word)})" for word in words]
