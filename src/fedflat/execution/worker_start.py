"""The start of a worker process. This module imports little, so it can report an import that fails.

A Python process that is started with ``-c`` or ``-m`` searches the current folder before the
standard library. A file such as ``struct.py`` there would be executed. ``PYTHONSAFEPATH`` prevents
that. `multiprocessing` sends the parent's `sys.path` to the child later, so modules beside the
user's script are still found.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

VARIABLE = "PYTHONSAFEPATH"


@contextmanager
def safe_path() -> Iterator[str | None]:
    """Python processes started in here do not search the current folder. Yields the variable's
    value before."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "1"
    try:
        yield before
    finally:
        restore(before)


def restore(value: str | None) -> None:
    """Set the variable to ``value``. None removes it."""
    os.environ.pop(VARIABLE, None)
    if value is not None:
        os.environ[VARIABLE] = value


FAILED = b"failed: "
"""How the last message of a worker begins that ends by an exception. A pickle never begins so."""


def start(line: Connection, samples: Connection | None, safe_path: str | None, shared: Any) -> None:
    """Do all of a worker's work. An exception is sent to the parent as text.

    ``safe_path`` is the parent's ``PYTHONSAFEPATH``, for processes that the user's code starts.
    ``shared`` is the memory for answers.
    """
    restore(safe_path)
    try:
        from fedflat.execution.worker import work

        work(line, samples, shared)
    except (
        EOFError,
        ConnectionResetError,
        BrokenPipeError,
    ):  # the parent has closed the connection
        return
    except Exception as error:
        with suppress(OSError):
            line.send_bytes(FAILED + f"{type(error).__name__}: {error}".encode(errors="replace"))
        sys.exit(1)
