"""Run several runs in parallel, each in its own process, at a low priority."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Generic, Protocol, TypeVar

from fedflat.execution.interrupt import STOPPED
from fedflat.files import open_file
from fedflat.kernels.allocator import huge_pages
from fedflat.registry.plugins import named_plugins

LOG = "log.txt"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
TICK = 0.1
"""Seconds between two checks of the processes."""


class Planned(Protocol):
    """A run, by its folder inside that of all runs."""

    @property
    def folder(self) -> str:
        """The folder of the run."""


class Plan(Protocol):
    """The runs to make: the folder of all runs, and the last round of each."""

    @property
    def folder(self) -> Path:
        """The folder of all runs."""

    def until(self, job: Any) -> int:
        """The round after which a run stops."""


@dataclass
class RunningJob:
    """A run whose process is running."""

    job: Planned
    process: subprocess.Popen[str]
    log: IO[str]
    path: Path
    """Path of the log."""
    round: int = 0
    left: float = float("nan")
    """Seconds until its stop. NaN before its first round."""
    doing: str = ""
    """What is measured after the rounds."""
    messages: list[str] = field(default_factory=list)
    reader: threading.Thread | None = None

    def read_messages(self) -> None:
        """Read the messages of the process until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            self.round, self.left = message.get("round", self.round), message.get("left", self.left)
            self.doing = message.get("doing", self.doing)
            if "line" in message:
                self.messages.append(message["line"])


P = TypeVar("P", bound=Plan)


@dataclass
class RunScheduler(Generic[P]):
    """Runs the jobs of a plan, `jobs` at a time. Call `work` once."""

    plan: P
    jobs: int
    workers: int
    """Clients of a run that train in parallel, each in a process with one thread."""
    nice: int
    pause: float
    """Smallest number of seconds between two checkpoints of a run."""
    running: dict[str, RunningJob] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Runs that ended with an error, and the last line of their logs."""

    def work(self, waiting: Sequence[Planned], look: Callable[[], None]) -> None:
        """Run all jobs. `look` is called regularly.

        On Ctrl-C or SIGTERM, all runs write a checkpoint before this ends.
        """
        queue = list(waiting)
        with _handle_signals():
            try:
                while queue or self.running:
                    while queue and len(self.running) < self.jobs:
                        self._start(queue.pop(0))
                    self._finish_ended()
                    look()
                    time.sleep(TICK)
            finally:
                self._stop()

    def _start(self, job: Planned) -> None:
        place = self.plan.folder / job.folder
        place.parent.mkdir(parents=True, exist_ok=True)
        path = place.parent / f"{place.name}-{LOG}"
        # Closed in _finish.
        log = open(open_file(path, os.O_WRONLY | os.O_APPEND), "a")  # noqa: SIM115
        words: list[object] = [
            self.plan.folder,
            job.folder,
            self.plan.until(job),
            self.workers,
            self.nice,
            self.pause,
        ]
        words += [named.text for named in named_plugins()]
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
        running_job = RunningJob(job, process, log, path)
        running_job.reader = threading.Thread(target=running_job.read_messages, daemon=True)
        running_job.reader.start()
        self.running[job.folder] = running_job

    def _finish_ended(self) -> None:
        """Finish the jobs whose processes have ended."""
        for folder, running_job in list(self.running.items()):
            if running_job.process.poll() is not None:
                self._finish(folder)

    def _finish(self, folder: str) -> None:
        running_job = self.running[folder]
        code = running_job.process.wait()
        assert running_job.reader is not None
        assert running_job.process.stdout is not None
        running_job.reader.join()
        running_job.process.stdout.close()
        running_job.log.close()
        log = running_job.path
        if code not in (0, STOPPED, -signal.SIGINT):  # -SIGINT: stopped while it was starting
            self.failed[folder] = _error_text(log, code)
        elif code < 0 or not log.stat().st_size:
            log.unlink()
        del self.running[folder]

    def _stop(self) -> None:
        """Let all runs write a checkpoint and end."""
        for running_job in self.running.values():
            running_job.process.send_signal(signal.SIGINT)
        for folder in list(self.running):
            self._finish(folder)


@contextmanager
def _handle_signals() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C. Ignore repeated signals while runs are stopped."""
    main = threading.current_thread() is threading.main_thread()
    received: list[int] = []

    def handle(number: int, frame: object) -> None:
        received.append(number)
        if len(received) == 1:
            raise KeyboardInterrupt

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if main else ()
    before = {number: signal.signal(number, handle) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _error_text(log: Path, code: int) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return f"{lines[-1] if lines else 'no message'} (exit status {code}; see {log})"
