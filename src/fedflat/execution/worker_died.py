"""Why a worker process has ended."""

from __future__ import annotations

import signal
from multiprocessing.context import SpawnProcess

from fedflat.errors import FedflatError
from fedflat.execution.worker_start import FAILED

PATIENCE = 10.0
"""Seconds in which a worker that has closed its connection must end."""


class WorkerDied(FedflatError):
    """A worker process has ended without an answer.

    ``reason`` says why. The message adds what to do, which is right only where the run has failed.
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason}. {remedy}The run can be resumed.")
        self.reason = reason


def death_of(process: SpawnProcess, message: bytes | None) -> WorkerDied:
    """Wait for the end of a worker and find its reason; ``message`` is the last one it sent, if it
    sent one."""
    process.join(PATIENCE)
    code = process.exitcode
    process.kill()
    process.join()
    if message is not None:
        return WorkerDied(
            f"A worker process failed ({message.removeprefix(FAILED).decode(errors='replace')})"
        )
    if code is None:
        return WorkerDied("A worker process closed its connection")
    if code == -signal.SIGKILL:
        reason = "A worker process died unexpectedly, probably out of memory"
        return WorkerDied(reason, "Use fewer workers or a smaller batch. ")
    if code < 0:
        return WorkerDied(f"A worker process was killed by {_name(-code)}")
    return WorkerDied(
        f"A worker process ended with exit code {code}; its error output, if any, is above"
    )


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
