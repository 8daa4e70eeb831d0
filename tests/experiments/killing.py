"""Real processes of a run that are killed at any moment and resumed."""

from __future__ import annotations

import atexit
import shutil
import signal
import subprocess
import time
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import fedflat as ff
from experiments.small import children, ended, final, rows, start, timeless, wait_for
from fedflat.experiments.run_folder.checkpoints import Store

METHOD = "fedgloss(rho_s=0.05, rho_l=0.05, beta=10) + wima(window=7)"
ON = "digits(lda(0), clients=30)"
CLOCK = "devices(speed=lognormal(50, sigma=1.0), deadline=8, present=on_off(500, 25))"
"""By which some are too late and some are away, but never all who are asked."""
ROUNDS = 200
RUN = (
    "run",
    METHOD,
    "--on",
    ON,
    "--rounds",
    str(ROUNDS),
    "--clients-per-round",
    "3",
    "--eval-every",
    "25",
    "--eval-last",
    "3",
    "--quiet",
    "--checkpoint-every",
    "0",
    "--clock",
    CLOCK,
    "--min-replies",
    "1",
)


@cache
def never_stopped(executor: str = "auto") -> Path:
    """The folder of the whole run, made in this process."""
    root = mkdtemp()
    atexit.register(shutil.rmtree, root)
    folder = Path(root) / "whole"
    ff.run(
        METHOD,
        on=ON,
        rounds=ROUNDS,
        clients_per_round=3,
        eval_every=25,
        eval_last=3,
        threads=1,
        executor=executor,
        out=folder,
        quiet=True,
        clock=CLOCK,
        min_replies=1,
    )
    return folder


def same_as_never_stopped(folder: Path, executor: str = "auto") -> bool:
    """Whether a run ended with the same bytes."""
    whole = never_stopped(executor)
    return final(folder) == final(whole) and timeless(rows(folder)) == timeless(rows(whole))


def begin_or_go_on(
    folder: Path, *config: str, stop_after: tuple[str, int] | None = None
) -> subprocess.Popen[str]:
    """What a person would type: there is nothing to resume before the folder is a run."""
    words = (*RUN, *config, "--out", str(folder))
    if (folder / "run.json").exists():
        words = ("resume", str(folder), "--quiet", "--checkpoint-every", "0")
    return start(*words, start_new_session=True, stop_after=stop_after)


def newest(folder: Path) -> int:
    """The round of the newest checkpoint; 0 if there is none."""
    return max(Store(folder / "checkpoint").rounds(), default=0)


def kill_9(folder: Path, delay: float, *config: str, at_once: bool = False) -> tuple[bool, str]:
    """Start, wait for a checkpoint newer than any so far unless ``at_once``, and a little more,
    kill.

    Whether it was still at work, and what it said.
    """
    before = newest(folder)
    process = begin_or_go_on(folder, *config)
    if not at_once:
        wait_for(lambda: newest(folder) > before or process.poll() is not None, "a checkpoint")
    time.sleep(delay)
    family = [] if process.poll() is not None else children(process.pid)
    process.kill()
    _, errors = process.communicate()
    ended(*family)
    return process.returncode == -signal.SIGKILL, errors
