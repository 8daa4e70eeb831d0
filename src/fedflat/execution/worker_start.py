"""The first function of a worker process. It imports little, so it can report an import that
fails."""

from __future__ import annotations

import sys
from contextlib import suppress
from multiprocessing.connection import Connection

from fedflat.execution.safe_path import restore

FAILED = b"failed: "
"""How the last message of a worker begins that ends by an exception. A pickle never begins so."""


def start(line: Connection, tap: Connection | None, safe_path: str | None) -> None:
    """Do all of a worker's work. An exception is sent to the parent as text.

    ``safe_path`` is the parent's ``PYTHONSAFEPATH``, for processes that the user's code starts.
    """
    restore(safe_path)
    try:
        from fedflat.execution.worker import work

        work(line, tap)
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
