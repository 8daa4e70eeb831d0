"""Where the computing is done: the executor, chosen by a name, by us, or given in Python; devices;
who watches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from fedflat.errors import RunError, SettingError, choice
from fedflat.execution.client_pool import Executor
from fedflat.execution.in_process import InProcess
from fedflat.execution.main_module import refuse_while_importing
from fedflat.execution.stacked import Stacked
from fedflat.execution.workers import Workers
from fedflat.experiments.choose_executor import RunLoad, choose, cores
from fedflat.experiments.loggers import check_installed, names_of
from fedflat.experiments.prepare import PreparedRun
from fedflat.experiments.recording import Recording, recorders_of
from fedflat.experiments.run_folder.run_folder import Say
from fedflat.settings.groups import EXECUTORS, ExecutionSettings


@dataclass(frozen=True, kw_only=True)
class ExecutionConfig(ExecutionSettings):
    """Where the computing is done; changes no number beyond the order of floating-point sums."""

    def __post_init__(self) -> None:
        refuse_while_importing()
        super().__post_init__()
        self._check_executor()
        recorders_of(self.watch), names_of(self.track)
        kind = self.device.partition(":")[0]
        choice("run", "device", kind, ["cpu", "cuda", "mps"])
        if (kind == "cuda" and not torch.cuda.is_available()) or (
            kind == "mps" and not torch.backends.mps.is_available()
        ):
            raise SettingError(
                f"run: device {self.device!r} was asked for, but this machine has none. Use 'cpu'."
            )
        try:
            torch.device(self.device)
        except RuntimeError:
            raise SettingError(
                f"run: device {self.device!r} cannot be read. Write 'cpu', or 'cuda:0'."
            ) from None

    def _check_executor(self) -> None:
        given = not isinstance(self.executor, str)
        if given and not callable(getattr(self.executor, "open", None)):
            raise SettingError(
                f"run: executor must be one of {', '.join(EXECUTORS)}, or an object whose `open` gives a crew, found "
                f"{self.executor!r}."
            )
        if given and (self.workers or self.threads):
            raise SettingError(
                f"run: workers and threads were asked for beside the executor {self.executor!r}, which knows its own. "
                "Leave them out."
            )
        if self.workers and self.executor not in ("auto", "workers"):
            raise SettingError(
                f"run: {self.workers} workers were asked for, but the executor {self.executor!r} has none. Leave one "
                "out."
            )

    @property
    def undecided(self) -> bool:
        """Whether the choice is left to us."""
        return self.executor == "auto" and not self.workers and not self.threads

    def loads(self, prepared: PreparedRun) -> list[RunLoad]:
        """What a run asks for, if we are to choose."""
        return [RunLoad.of(prepared)] if self.undecided else []

    def settled(self, loads: Sequence[RunLoad], note: Say) -> ExecutionConfig:
        """The same with what was left to us chosen, alike for all runs; ``note`` is told what and
        why."""
        if not self.undecided:
            return self
        executor, why = choose(loads)
        note(f"  {why}")
        return replace(self, **executor_text(executor))

    def make(self) -> Executor:
        """The executor, once it is settled."""
        assert not self.undecided
        if not isinstance(self.executor, str):
            return self.executor
        if self.executor == "workers" or self.workers:
            return Workers(self.workers or cores(), self.threads or 1)
        return Stacked(self.threads) if self.executor == "stacked" else InProcess(self.threads)

    def as_json(self) -> dict[str, Any]:
        """Texts and numbers from which `merge_config` makes it again; the executor is None if only
        Python can say it."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        return plain if isinstance(self.executor, str) else plain | executor_text(self.executor)

    def check(self, prepared: PreparedRun, out: Path | None) -> None:
        """Refuse to watch or track what cannot be."""
        check_installed(self.track)
        wanted = Recording.of(prepared, self.watch).recorders or names_of(self.track)
        if wanted and out is None:
            raise SettingError(
                "run: what is watched and tracked is written into the run folder, and there is none. Name one: "
                "out='runs/mine'."
            )


def executor_text(executor: Executor) -> dict[str, Any]:
    """The settings that say an executor; of one that is not ours, that there was one."""
    if type(executor) is Workers:
        return {"executor": "workers", "workers": executor.n, "threads": executor.threads}
    if type(executor) is Stacked:
        return {"executor": "stacked", "threads": executor.threads}
    if type(executor) is InProcess:
        return {"executor": "in-process", "threads": executor.threads}
    return {"executor": None}


def merge_config(saved: Mapping[str, Any], now: Mapping[str, Any]) -> ExecutionConfig:
    """Where a run was computed, with what is said ``now`` in place of what was said then, unless it
    is None."""
    new = {name: value for name, value in now.items() if value is not None}
    if "executor" in new:
        new |= {"workers": 0, "threads": None}
    elif "executor" in saved and saved["executor"] is None:
        raise RunError(
            "the run's executor was given in Python and cannot be read from its folder. Resume it in Python, with that "
            "one or another: fedflat.resume(folder, executor=...)."
        )
    return ExecutionConfig(**{**saved, **new})
