"""The script's side of a benchmark: work only when asked, and say how long it took.

A script builds its federation, makes a `Turns`, and calls its `round` after every round of
training; frameworks that own their loop do so from a hook. The first rounds warm up. Then `round`
waits inside the hook until a line on the standard input asks for a number of rounds, and answers it
with one JSON line when they are done:

    {"seconds": 5.9, "samples": 5000, "rounds": 1, "loss": 1.83}

``loss`` is that of the global model on some examples, computed when the clock has stopped. The
first answer, after the warm-up, says also which ``setting`` and which ``versions`` are timed.
`round` is False when the input has ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import version

WARM_UP = 2
"""Rounds before the first answer, unless told otherwise."""
LIFELINE = "BENCHMARK_LIFELINE"
"""The variable that names a pipe which closes when whoever asks is no more, whatever ended it."""


class Turns:
    """Keeps the clock. Whatever else is printed by the process goes to the standard error."""

    def __init__(self, setting: str, *packages: str, warm_up: int = WARM_UP) -> None:
        if LIFELINE in os.environ:
            threading.Thread(
                target=_end_with, args=(int(os.environ.pop(LIFELINE)),), daemon=True
            ).start()
        self._answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._facts = {"setting": setting, "versions": {name: version(name) for name in packages}}
        self._begin(warm_up)

    def _begin(self, rounds: int) -> None:
        self._left = self._rounds = rounds
        self._samples, self._begun = 0, time.perf_counter()

    def round(self, samples: int, loss: Callable[[], float]) -> bool:
        """A round has trained on ``samples`` examples: whether to do another one."""
        self._left -= 1
        self._samples += samples
        if self._left:
            return True
        seconds = time.perf_counter() - self._begun
        answer = {
            "seconds": seconds,
            "samples": self._samples,
            "rounds": self._rounds,
            "loss": loss(),
            **self._facts,
        }
        print(json.dumps(answer), file=self._answers, flush=True)
        self._facts = {}
        asked = sys.stdin.readline()
        if asked:
            self._begin(int(asked))
        return bool(asked)


def _end_with(lifeline: int) -> None:
    """Wait for the end of the driver; then end at once, with all processes of this session."""
    os.read(lifeline, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)
