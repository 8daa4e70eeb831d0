"""Worker processes that need not import PyTorch: forked from a process that has imported what every
worker imports first, and nothing else.

The start of a new process is tested in `tests/experiments/`: in `test_executors.py`,
`test_main_module.py` and `test_kill.py`.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

FIRST = "fedflat.execution.worker"
"""The first module that a worker imports, in `fedflat.execution.worker_start`."""


@contextmanager
def warm_processes() -> Iterator[None]:
    """Workers of this process that are opened in here are forked so."""
    cold = multiprocessing.get_context
    forked = cold("forkserver")
    forked.set_forkserver_preload([FIRST])

    def context(method: str | None = None) -> Any:
        return forked if method == "spawn" else cold(method)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multiprocessing, "get_context", context)
        yield
