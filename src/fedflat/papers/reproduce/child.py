"""One run of a table, in a process of its own.

    python -m fedflat.papers.reproduce.child FOLDER RUN UNTIL WORKERS NICE SECONDS PLUGIN...

It tells its rounds on standard output, a JSON object a line. SIGINT or SIGTERM, or nobody who
listens any more (the parent was killed), make it write a checkpoint and end. Started again, it goes
on, with any number of workers.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedflat.errors import FedflatError
from fedflat.execution.in_process import InProcess
from fedflat.execution.workers import Workers
from fedflat.experiments.execution_config import ExecutionConfig, executor_text
from fedflat.experiments.experiment import Experiment, from_json
from fedflat.experiments.progress import OnProgress, Progress
from fedflat.experiments.run_folder.study_file import read_plan
from fedflat.experiments.study import Reporter, resume, run_one
from fedflat.files import open_file
from fedflat.registry.plugins import load_plugin

PAUSE = 0.5
"""Least seconds between two lines."""
PATIENCE = 120.0
"""Seconds to wait for a process that still writes its last checkpoint in the folder."""
STOPPED = 130


def main(words: list[str]) -> int:
    """Make the run, or go on with it."""
    folder, name, until, workers, nice = Path(words[0]), words[1], *map(int, words[2:5])
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # ignored, if the parent was started in the background
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    stand_back(nice)
    try:
        for plugin in words[6:]:
            load_plugin(plugin)
        wait_until_free(folder / name)
        reporter = Reporter(announce, tell_of("say"), tell_of("note"))
        wishes: dict[str, Any] = {
            "reporter": reporter,
            "checkpoint_every": float(words[5]),
            "until": until,
        }
        pool = InProcess(1) if workers == 1 else Workers(workers)
        if (folder / name / "run.json").exists():
            resume(folder / name, executor=pool, **wishes)
        else:
            run_one(
                planned(folder, name),
                ExecutionConfig(**executor_text(pool)),
                folder / name,
                **wishes,
            )
    except KeyboardInterrupt:
        return STOPPED
    except FedflatError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def stand_back(nice: int) -> None:
    """Leave the cores to whoever else wants them.

    A Linux that groups processes by session weighs whole groups, and a process alone in its session
    is one: there its own nice value says nothing about others, and the group's does.
    """
    os.nice(nice)
    with suppress(OSError):  # there are no such groups, or they must not be changed
        Path("/proc/self/autogroup").write_text(str(nice))


def planned(folder: Path, name: str) -> Experiment:
    """The experiment of a run that has not begun."""
    return next(
        from_json(run["experiment"]) for run in read_plan(folder)["runs"] if run["folder"] == name
    )


def say(**facts: Any) -> None:
    """Tell the parent; without one there is nothing more to do."""
    try:
        print(json.dumps(facts), flush=True)
    except (BrokenPipeError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise KeyboardInterrupt from None


def tell_of(kind: str) -> Any:
    """A listener for sentences."""
    return lambda text: say(**{kind: text.strip()})


def announce(exp: Experiment, place: int, total: int) -> OnProgress:
    """A listener for rounds."""
    last = 0.0

    def tell(tick: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PAUSE or tick.round == tick.rounds:
            last = now
            say(round=tick.round, left=tick.left, speed=tick.speed)

    return tell


def wait_until_free(run: Path) -> None:
    """Wait for a process of a parent that was killed, which writes its last checkpoint."""
    end = time.monotonic() + PATIENCE
    if not (run / "lock").exists():
        return
    with open(open_file(run / "lock", os.O_RDWR), "rb") as lock:
        while time.monotonic() < end:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                time.sleep(0.2)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
