"""Runs side by side, each in a process of its own, at a low priority."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from fedflat.files import open_file
from fedflat.kernels.allocator import huge_pages
from fedflat.papers.reproduce.child import STOPPED
from fedflat.papers.reproduce.plan import TablePlan
from fedflat.papers.reproduce.run_sharing import Job
from fedflat.registry.plugins import named_plugins

LOG = "log.txt"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
TICK = 0.1
"""Seconds between two looks at the processes."""


@dataclass
class RunningJob:
    """A run that is being made."""

    job: Job
    process: subprocess.Popen[str]
    log: IO[str]
    path: Path
    """Of the log."""
    round: int = 0
    left: float = float("nan")
    """Seconds to its stop; NaN before its first round."""
    said: list[str] = field(default_factory=list)
    listener: threading.Thread | None = None

    def listen(self) -> None:
        """Read what it tells, to its end."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            self.round, self.left = told.get("round", self.round), told.get("left", self.left)
            if "say" in told:
                self.said.append(told["say"])


@dataclass
class RunScheduler:
    """The runs of a plan, so many at a time. Use `work` once; what goes on may be looked at
    meanwhile."""

    plan: TablePlan
    jobs: int
    workers: int
    """Clients of a run at a time, each in a process of one thread."""
    nice: int
    pause: float
    """Least seconds between two checkpoints of a run."""
    going: dict[str, RunningJob] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Runs that ended with an error, and its last words."""

    def work(self, waiting: list[Job], look: Callable[[], None]) -> None:
        """Make all of them; ``look`` is called in between. Ctrl-C or SIGTERM ends it when all have
        checkpoints."""
        queue = list(waiting)
        with _stoppable():
            try:
                while queue or self.going:
                    while queue and len(self.going) < self.jobs:
                        self._start(queue.pop(0))
                    self._gather()
                    look()
                    time.sleep(TICK)
            finally:
                self._stop()

    def _start(self, job: Job) -> None:
        place = self.plan.folder / job.folder
        place.parent.mkdir(parents=True, exist_ok=True)
        path = place.parent / f"{place.name}-{LOG}"
        log = open(open_file(path, os.O_WRONLY | os.O_APPEND), "a")  # noqa: SIM115 (closed when the process has ended)
        words: list[object] = [
            self.plan.folder,
            job.folder,
            self.plan.until(job),
            self.workers,
            self.nice,
            self.pause,
        ]
        words += [named.said for named in named_plugins()]
        with huge_pages():
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "fedflat.papers.reproduce.child", *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env={**os.environ, **dict.fromkeys(THREADS, str(self.workers))},
            )
        going = RunningJob(job, process, log, path)
        going.listener = threading.Thread(target=going.listen, daemon=True)
        going.listener.start()
        self.going[job.folder] = going

    def _gather(self) -> None:
        """Bury those that have ended."""
        for folder, going in list(self.going.items()):
            if going.process.poll() is not None:
                self._bury(folder)

    def _bury(self, folder: str) -> None:
        going = self.going[folder]
        code = going.process.wait()
        assert going.listener is not None
        assert going.process.stdout is not None
        going.listener.join()
        going.process.stdout.close()
        going.log.close()
        log = going.path
        if code not in (
            0,
            STOPPED,
            -signal.SIGINT,
        ):  # the last: stopped before it could do anything
            self.failed[folder] = _last_words(log, code)
        elif code < 0 or not log.stat().st_size:
            log.unlink()
        del self.going[folder]

    def _stop(self) -> None:
        """Let all write a checkpoint and end."""
        for going in self.going.values():
            going.process.send_signal(signal.SIGINT)
        for folder in list(self.going):
            self._bury(folder)


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM and the end of the terminal are a Ctrl-C; a second one does not cut the goodbyes
    short."""
    main = threading.current_thread() is threading.main_thread()
    pressed: list[int] = []

    def press(number: int, frame: object) -> None:
        pressed.append(number)
        if len(pressed) == 1:
            raise KeyboardInterrupt

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if main else ()
    before = {number: signal.signal(number, press) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _last_words(log: Path, code: int) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return f"{lines[-1] if lines else 'it said nothing'} (exit status {code}; {log} has all of it)"
