"""A client's process is watched, and started again if it dies."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds before a process that died is started again; doubled each time it dies early."""
LONG = 60.0
"""Seconds after which a process did not die early."""
WATCHED = "FEDFLAT_WATCHED"


def supervise(words: Sequence[str]) -> int:
    """Run ``fedflat`` with these words in a process of its own; start it again if it is killed.

    A process that ends with a status of its own (done, or wrong use) is not started again. Returns
    its status.
    """
    pause = FIRST_PAUSE
    while True:
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "fedflat", *words],
            stdin=subprocess.PIPE,
            env={**os.environ, WATCHED: "1"},
        )
        try:
            status = process.wait()
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
        finally:
            if process.stdin is not None:
                process.stdin.close()
        if 0 <= status <= 2:
            return status
        if time.monotonic() - began > LONG:
            pause = FIRST_PAUSE
        print(
            f"fedflat: the client's process died ({status}); it starts again in {pause:g} s",
            file=sys.stderr,
            flush=True,
        )
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def is_watched() -> bool:
    """Whether this process was started by `supervise`."""
    return os.environ.get(WATCHED) == "1"


def end_with_parent() -> None:
    """End this process when the one that watches it has ended."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        os._exit(143)

    threading.Thread(target=wait, daemon=True).start()
