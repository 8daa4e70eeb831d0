"""Small runs for the tests of this folder and of the command line."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from fedflat.client.local import LocalTraining
from fedflat.data.federation import DataSpec
from fedflat.data.sets.in_memory import clients_of
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.experiments.experiment import EvaluationSchedule, Experiment
from fedflat.experiments.progress import Progress
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.run_folder import DiskRunFolder
from fedflat.experiments.state import RunState
from fedflat.experiments.train import train
from fedflat.models.simple import mlp
from fedflat.registry.specs import parse
from fedflat.server.client_selection import ClientSampler
from warm_python import WarmPython

SIZES = (6, 9, 12, 7, 8)
EVERYTHING = "fedgloss(rho_s=0.05, rho_l=0.05, beta=10) + wima(window=3)"
"""State at clients and server, a model average, SAM."""
ON = "digits(lda(0), clients=20)"
FEDFLAT = Path(sys.executable).with_name("fedflat")
STOPPING = Path(__file__).with_name("stopping.py")
PATIENCE = 600
"""Seconds after which something that is waited for has gone wrong, on the slowest machine."""


def data() -> DataSpec:
    """Five clients of different sizes with four numbers an input and three classes."""
    rng = torch.Generator().manual_seed(0)
    given = []
    for size in SIZES:
        y = torch.arange(size) % 3
        given.append((torch.randn(size, 4, generator=rng) + y.view(-1, 1), y))
    return clients_of(given, test=given[2], classes=3)


def experiment(method: str = "fedavg", **more: Any) -> Experiment:
    """A run of six rounds with two clients each."""
    settings: dict[str, Any] = {
        "on": data(),
        "model": mlp([5]),
        "rounds": 6,
        "seed": 3,
        "local": LocalTraining(batch_size=4, lr=0.05),
        "sampler": ClientSampler(clients=2),
        "evaluate": EvaluationSchedule(every=1),
    }
    return Experiment(method=parse(method, "method"), **{**settings, **more})


def stop_at(round: int | None) -> Callable[[Progress], None]:
    """A progress callback that interrupts the run after a round."""

    def on_progress(progress: Progress) -> None:
        if progress.round == round:
            raise KeyboardInterrupt

    return on_progress


class Eager(DiskRunFolder):
    """A run folder that does not wait longer for the next checkpoint because the last one was
    slow."""

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        """Write if the pause is over."""
        self._cost = 0.0
        super().checkpoint(run, force=force)


def begin(
    exp: Experiment,
    folder: Path,
    *,
    stop: int | None = None,
    pause: float = 0.0,
    executor: Executor = InProcess(threads=1),
) -> Result:
    """Run in a new folder, and write a checkpoint after every round unless there is a pause."""
    with closing(Eager.create(folder, exp.texts(), {}, pause=pause)) as run_folder:
        return train(exp, run_folder=run_folder, executor=executor, on_progress=stop_at(stop))


def go_on(
    exp: Experiment,
    folder: Path,
    *,
    messages: list[str] | None = None,
    pause: float = math.inf,
    executor: Executor = InProcess(threads=1),
) -> Result:
    """Resume, to the end; printed lines are appended to ``messages``."""
    with closing(
        Eager.open(
            folder, pause=pause, print_line=(messages if messages is not None else []).append
        )
    ) as run_folder:
        return train(exp, run_folder=run_folder, executor=executor)


def timeless(rows: Any) -> list[dict[str, Any]]:
    """Evaluations without what a clock says."""
    return [
        {
            key: value
            for key, value in row.items()
            if key not in ("training", "seconds", "evaluation")
        }
        for row in rows
    ]


def rows(folder: Path) -> list[dict[str, Any]]:
    """The evaluations in a run folder, read here, without what ties them together."""
    read = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "chain"} for row in read]


def final(folder: Path) -> dict[str, bytes]:
    """The last models of a run folder, by the names of their files."""
    return {
        path.name: path.read_bytes() for path in folder.glob("final*.safetensors") if path.is_file()
    }


def start(
    *words: str, stop_after: tuple[str, int] | None = None, **more: Any
) -> subprocess.Popen[str]:
    """The command line in a warm process of its own; it stops itself after a call, as in
    stopping.py, if that is given."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    command: list[str | Path] = [FEDFLAT]
    if stop_after is not None:
        command = [sys.executable, STOPPING, stop_after[0], str(stop_after[1])]
    return WarmPython([*command, *words], env=environment, text=True, **pipes)


def wait_until_stopped(process: subprocess.Popen[str]) -> None:
    """Wait until a process has come to the point where it stops itself."""
    found = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert found is not None
    assert found.si_code == os.CLD_STOPPED, process.communicate()


def kill_when_stopped(process: subprocess.Popen[str]) -> None:
    """kill -9 at the point where a process stops itself; the processes it has started end too."""
    wait_until_stopped(process)
    family = children(process.pid)
    process.kill()
    process.communicate()
    ended(*family)


def wait_for(test: Callable[[], bool], what: str) -> None:
    """Wait until something is so; the limit is for what never will be, not for a slow machine."""
    end = time.monotonic() + PATIENCE
    while not test():
        assert time.monotonic() < end, f"{what} did not happen in {PATIENCE} s"
        time.sleep(0.005)


def ended(*pids: int) -> None:
    """Wait for the end of processes."""
    wait_for(lambda: not any(map(alive, pids)), f"the end of {pids}")


def alive(pid: int) -> bool:
    """Whether a process is there and not only waiting to be buried."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def children(pid: int) -> list[int]:
    """The processes a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
