"""The folder of a run: settings, measurements, checkpoints and models.

    run.json             settings, status and end of the run: see `record`
    metrics.jsonl        one object for each evaluation, appended and flushed: see `jsonl_log`
    recorded.jsonl       the same for the metrics recorded in each round
    checkpoint/          see `checkpoints`
    groups.json          the groups of clients, if there are any: see `groups`
    descriptions/        client descriptions collected before round 0, if needed: see `description_store`
    final.safetensors    the model it reports, by the module's own names; final-NAME.safetensors: the others

Digests tie the files together, and readers check them. `RunFolder` stores everything in memory,
`DiskRunFolder` on disk.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from fedflat.errors import LONGEST_WAIT, PrintLine, RunError, number
from fedflat.execution.client_states import ClientStates
from fedflat.experiments.run_folder.checkpoints import Store
from fedflat.experiments.run_folder.description_store import DescriptionStore
from fedflat.experiments.run_folder.experiment_texts import ExperimentInfo, ExperimentTexts
from fedflat.experiments.run_folder.fingerprint import check_same_origin, origin_of
from fedflat.experiments.run_folder.groups import GROUPS, Grouped, read_groups, write_groups
from fedflat.experiments.run_folder.jsonl_log import LOGS, LogPosition, Row
from fedflat.experiments.run_folder.model_files import Named, write_models
from fedflat.experiments.run_folder.record import (
    Labels,
    Origin,
    RunEnd,
    RunRecord,
    read_record,
    same_version,
)
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.state import RunState, read_checkpoint
from fedflat.files import NEW, Damaged, hold, refuse_link, unwritable

FIRST = "start"
"""The subfolder of a run that is made first, for an initializer."""
DESCRIPTIONS = "descriptions"
"""The subfolder of client descriptions."""
PAUSE = 20.0
"""Default of the least time between two checkpoints, in seconds."""


class RunFolder:
    """A run folder in memory; nothing is written to disk."""

    place: Path | None = None
    """The folder of its checkpoints."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.recorded: list[Row] = []
        self.print_line: PrintLine = lambda text: None
        self.status = "running"

    def resume(self, clients: ClientStates) -> RunState | None:
        """The state to continue from; None at the beginning. ``clients`` receives the client
        state."""
        return None

    def before(self, setup: RunSetup, place: str = FIRST) -> RunFolder:
        """The folder of a run that is made first, named ``place`` inside this one."""
        return RunFolder()

    def description_store(self) -> DescriptionStore:
        return DescriptionStore()

    def write_groups(self, groups: Grouped | None) -> None:
        """Store the groups of clients, if there are any."""

    def write(self, row: Row) -> None:
        self.rows.append(row)

    def write_recorded(self, row: Row) -> None:
        """Add the metrics recorded in a round."""
        self.recorded.append(row)

    def describe(self, labels: Labels) -> None:
        """Store the labels of recorded metrics, by key, for reports."""

    def note(self, seen: Row, row: Row) -> None:
        """Add recorded metrics and an evaluation, unless they are empty."""
        if seen:
            self.write_recorded(seen)
        if row:
            self.write(row)

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        """Write a checkpoint, to continue from here."""

    def change_execution(self, execution: Mapping[str, Any]) -> None:
        """Record other settings of execution, for a run that is resumed."""

    def finish(self, status: str, models: Mapping[str, Named]) -> None:
        """Store the end of the run, "done" or "diverged"; the last of its models is reported."""
        self.status = status

    def close(self) -> None:
        """Close files."""


class DiskRunFolder(RunFolder):
    """A run folder on disk. ``pause`` is the least time between two checkpoints, in seconds."""

    def __init__(
        self, folder: Path, record: RunRecord, lock: IO[bytes], pause: float, print_line: PrintLine
    ) -> None:
        super().__init__()
        self.folder, self.record, self.pause, self.print_line = folder, record, pause, print_line
        self.status = record.status
        self._lock = lock
        self.place = folder / "checkpoint"
        self._store = Store(self.place)
        self._logs = {name: record.open_log(folder, name) for name in LOGS}
        self._written = time.monotonic()
        self._cost = 0.0
        self._other_start = False

    def compare(self, origin: Origin) -> None:
        """Refuse to continue with other data or another module. Other initial weights are refused
        only if there is no checkpoint."""
        recorded = self.record.origin
        check_same_origin(self.folder, recorded, origin)
        self._other_start = recorded.start not in (None, origin.start)

    @classmethod
    def create(
        cls,
        folder: Path,
        experiment: ExperimentTexts,
        execution: Mapping[str, Any],
        *,
        origin: Origin = Origin(),
        info: ExperimentInfo | None = None,
        tried: int = 1,
        pause: float = PAUSE,
        print_line: PrintLine = lambda text: None,
    ) -> DiskRunFolder:
        """Create the folder of a new run; ``origin`` identifies its data and its module, and
        ``info`` is what reports say about it; ``tried`` is how many settings a sweep tries."""
        check_pause(pause)
        make_folder(folder)
        lock = hold(folder)
        record = RunRecord.new(experiment, execution, origin, info, tried)
        record.write(folder)
        return cls(folder, record, lock, pause, print_line)

    @classmethod
    def open(
        cls, folder: Path, *, pause: float = PAUSE, print_line: PrintLine = lambda text: None
    ) -> DiskRunFolder:
        same_version(folder, read_record(folder).version)
        refuse_link(folder / "checkpoint")
        lock = hold(folder)
        try:
            return cls(folder, read_record(folder), lock, pause, print_line)
        except BaseException:
            lock.close()
            raise

    def _change(self, **fields: Any) -> None:
        """Change fields of the record, and write it."""
        self.record = replace(self.record, **fields)
        self.record.write(self.folder)

    def resume(self, clients: ClientStates) -> RunState | None:
        """The newest intact checkpoint; damaged ones are reported."""
        damaged = False
        for round in self._store.rounds():
            try:
                run, marks = read_checkpoint(self._store, round, self.record.identity, clients)
            except Damaged as error:
                damaged = True
                self.print_line(
                    f"the checkpoint of round {round} is damaged ({error}); trying the one before "
                    "it."
                )
                self._store.forget(round)
                continue
            self._rewind(marks)
            return run
        if damaged:
            self.print_line("no checkpoint is whole: the run starts from its beginning.")
        if self._other_start:
            raise RunError(
                f"{self.folder} has no checkpoint and must begin again, but this module has other "
                "weights to begin with. Give it those it had, or start a new run."
            )
        self._rewind({})
        return None

    def before(self, setup: RunSetup, place: str = FIRST) -> RunFolder:
        """A subfolder, which may exist already."""
        folder = self.folder / place
        if (folder / "run.json").exists():
            run_folder = DiskRunFolder.open(folder, pause=self.pause, print_line=self.print_line)
            run_folder.compare(origin_of(setup))
            return run_folder
        return DiskRunFolder.create(
            folder,
            setup.exp.texts(),
            self.record.execution,
            origin=origin_of(setup),
            info=setup.exp.info(),
            pause=self.pause,
            print_line=self.print_line,
        )

    def description_store(self) -> DescriptionStore:
        return DescriptionStore(self.folder / DESCRIPTIONS, self.record.identity, self.print_line)

    def write_groups(self, groups: Grouped | None) -> None:
        """Write the groups of clients, also in place of a damaged file. Refuse to resume with other
        groups."""
        before, identity = None, self.record.identity
        if groups is None:
            return
        try:
            before = read_groups(self.folder, identity)
        except Damaged as error:
            self.print_line(f"{self.folder / GROUPS} is damaged ({error}): it is written again.")
        if before is not None and before.groups != groups.groups:
            raise RunError(
                f"{self.folder} was begun with other groups of clients than {groups.by} makes now "
                f"({GROUPS} has them). The version of fedflat or scikit-learn differs. Resume with "
                "the version it was begun with, or start a new run."
            )
        if before is None:
            write_groups(self.folder, identity, groups)

    def _rewind(self, marks: Mapping[str, LogPosition]) -> None:
        """Drop what was written after the checkpoint: it will be written again."""
        self.rows, self.recorded = (self._logs[name].rewind(marks.get(name)) for name in LOGS)

    def write(self, row: Row) -> None:
        """Append a line and flush it."""
        super().write(row)
        self._logs["metrics"].append(row)

    def write_recorded(self, row: Row) -> None:
        super().write_recorded(row)
        self._logs["recorded"].append(row)

    def describe(self, labels: Labels) -> None:
        """Add them to those in run.json."""
        known = {**self.record.recorded, **labels}
        if known != self.record.recorded:
            self._change(recorded=known)

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        """Write a checkpoint if ``pause`` has passed, or 20 times what the last one cost."""
        now = time.monotonic()
        if not force and now - self._written < max(self.pause, 20 * self._cost):
            return
        self._store.write(
            run.round, run.groups(), {"run": self.record.identity, **run.values(), **self._marks()}
        )
        run.clients.release(min(self._store.rounds()))
        self._written = time.monotonic()
        self._cost = self._written - now

    def _marks(self) -> dict[str, Any]:
        return {name: log.mark._asdict() for name, log in self._logs.items()}

    def change_execution(self, execution: Mapping[str, Any]) -> None:
        """Write them into run.json, if they differ."""
        if execution != self.record.execution:
            self._change(execution=execution)

    def finish(self, status: str, models: Mapping[str, Named]) -> None:
        """Write the final models and the end of the run."""
        files = write_models(self.folder, models)
        logs = {name: log.mark for name, log in self._logs.items()}
        end = RunEnd(logs, files, list(models)[-1])
        super().finish(status, models)
        self._change(status=status, end=end)

    def close(self) -> None:
        self._lock.close()


def check_pause(seconds: float) -> None:
    """Refuse an invalid time between checkpoints; infinity is allowed."""
    if seconds != math.inf:
        number("run", "checkpoint_every", seconds, low=0, high=LONGEST_WAIT)


def make_folder(folder: Path) -> None:
    """Create an empty folder. One with the remains of a run that never started counts as empty."""
    try:
        exists = os.path.lexists(folder) and not (
            folder.is_dir() and all(map(_REMAINS.fullmatch, os.listdir(folder)))
        )
        begun = exists and any(
            os.path.lexists(folder / name) for name in ("run.json", "study.json")
        )
        if not exists:
            folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise unwritable(folder, error) from error
    if exists:
        hint = f"`fedflat resume {folder}` continues it; " if begun else ""
        raise RunError(
            f"{folder} is already there and not empty. {hint}--out names another folder."
        )


_REMAINS = re.compile(rf"lock|(run|study)\.json\.\d+{re.escape(NEW)}")
