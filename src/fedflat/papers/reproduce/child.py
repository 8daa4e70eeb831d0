"""One run of a table or of a sweep, in its own process.

    python -m fedflat.papers.reproduce.child FOLDER RUN UNTIL WORKERS NICE SECONDS PLUGIN...

It writes its progress to standard output, one JSON object per line. On SIGINT or SIGTERM, or if the
parent was killed, it writes a checkpoint and exits. Started again, it continues, with any number of
workers.
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

from fedflat.data.files.paths import remembered
from fedflat.errors import FedflatError
from fedflat.execution.in_process import InProcess
from fedflat.execution.interrupt import STOPPED
from fedflat.execution.workers import Workers
from fedflat.experiments.execution_config import merge_config
from fedflat.experiments.experiment import Experiment, from_texts
from fedflat.experiments.progress import OnProgress, Progress
from fedflat.experiments.run_folder.study_file import read_plan
from fedflat.experiments.study import Reporter, resume, run_one
from fedflat.files import open_file
from fedflat.papers.reproduce.plan import FILE, open_plan
from fedflat.registry.plugins import load_plugin

MIN_INTERVAL = 0.5
"""Smallest number of seconds between two lines."""
LOCK_TIMEOUT = 120.0
"""Seconds to wait for a process that is still writing its last checkpoint."""


def main(words: list[str]) -> int:
    """Start the run, or continue it. Returns the exit status."""
    folder, name, until, workers, nice = Path(words[0]), words[1], *map(int, words[2:5])
    # SIGINT is ignored if the parent was started in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    set_niceness(nice)
    try:
        for plugin in words[6:]:
            load_plugin(plugin)
        wait_until_free(folder / name)
        reporter = Reporter(progress_sender, sentence_sender("line"), sentence_sender("note"))
        options: dict[str, Any] = {
            "reporter": reporter,
            "checkpoint_every": float(words[5]),
            "until": until,
        }
        pool = InProcess(1) if workers == 1 else Workers(workers)
        if (folder / name / "run.json").exists():
            resume(folder / name, executor=pool, **options)
        else:
            plan = read_plan(folder)
            planned = next(run for run in plan.runs if run.folder == name)
            with remembered(plan.place):
                run_one(
                    from_texts(planned.experiment),
                    merge_config(plan.execution, {"executor": pool}),
                    folder / name,
                    tried=planned.tried,
                    **options,
                )
        if (folder / FILE).exists():
            _measure(folder, name, until)
    except KeyboardInterrupt:
        return STOPPED
    except FedflatError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _measure(folder: Path, name: str, until: int) -> None:
    """Measure the curvature that the cells of this run report."""
    entries = [
        entry
        for entry in open_plan(folder, reading=True).entries
        if entry.cell.needs_curvature and name in entry.folders.values()
    ]
    if entries:
        from fedflat.papers.reproduce.measure_flatness import measure_flatness

        measure_flatness(folder / name, entries, until, doing_sender)


def set_niceness(nice: int) -> None:
    """Lower the priority of this process.

    Linux with autogroups weighs whole sessions. A process alone in its session is one group: its
    own nice value does not matter for others, but that of the group does.
    """
    os.nice(nice)
    with suppress(OSError):  # no autogroups, or no permission
        Path("/proc/self/autogroup").write_text(str(nice))


def send(**message: Any) -> None:
    """Send values to the parent. If it has exited, stop the run."""
    try:
        print(json.dumps(message), flush=True)
    except (BrokenPipeError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise KeyboardInterrupt from None


def sentence_sender(kind: str) -> Any:
    """Return a callback that sends sentences."""
    return lambda text: send(**{kind: text.strip()})


def doing_sender(done: float, total: float, what: str) -> None:
    """Send what is measured after the rounds, and the share that is done."""
    share = f", {100 * done / total:.0f} %" if total else ""
    send(doing=f"curvature ({what}{share})")


def progress_sender(exp: Experiment, place: int, total: int) -> OnProgress:
    """Return a callback that sends the progress of rounds."""
    last = 0.0

    def on_progress(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= MIN_INTERVAL or progress.round == progress.rounds:
            last = now
            send(round=progress.round, left=progress.left, speed=progress.speed)

    return on_progress


def wait_until_free(run: Path) -> None:
    """Wait for an orphaned process that is still writing its last checkpoint."""
    end = time.monotonic() + LOCK_TIMEOUT
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
