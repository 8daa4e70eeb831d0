"""Child processes that import nothing from the current folder.

A Python process that is started with ``-c`` or ``-m`` searches the current folder before the
standard library. A file such as ``struct.py`` there would be executed. ``PYTHONSAFEPATH`` prevents
that. `multiprocessing` sends the parent's `sys.path` to the child later, so modules beside the
user's script are still found.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

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
