"""The command line in a process that stops itself at a given call, so that a test can kill or
continue it.

    python stopping.py fedflat.experiments.run_folder.checkpoints:Store.write 3 run fedavg ...

stops after the third call of that function. Where the process is then depends on no clock.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

from fedflat.experiments.run_folder.run_folder import DiskRunFolder
from fedflat.experiments.state import RunState

CHECKPOINT = "fedflat.experiments.run_folder.checkpoints:Store.write"
LOCAL_TRAINING = "fedflat.client.training:_local_train"
"""One client's local training, in the process that runs it."""


def act_after(target: str, calls: int, act: Callable[[], None]) -> None:
    """Act at the end of a call of a function or method, counted from 1; its name is
    ``module:qualified.name``."""
    module, _, path = target.partition(":")
    owner, _, name = path.rpartition(".")
    place, left = resolve_name(f"{module}:{owner}"), calls
    function = getattr(place, name)

    def counted(*given: Any, **named: Any) -> Any:
        nonlocal left
        result = function(*given, **named)
        left -= 1
        if left == 0:
            act()
        return result

    setattr(place, name, counted)


def checkpoint_by_rounds() -> None:
    """With ``--checkpoint-every 0`` write a checkpoint after every round, however long the last one
    took."""
    checkpoint = DiskRunFolder.checkpoint

    def eager(self: DiskRunFolder, run: RunState, *, force: bool = False) -> None:
        self._cost = 0.0
        checkpoint(self, run, force=force)

    DiskRunFolder.checkpoint = eager  # type: ignore[method-assign]


def kill_self() -> None:
    """End this process at once, as by kill -9."""
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    from fedflat.cli import main

    checkpoint_by_rounds()
    act_after(sys.argv[1], int(sys.argv[2]), lambda: os.kill(os.getpid(), signal.SIGSTOP))
    sys.exit(main(sys.argv[3:]))
