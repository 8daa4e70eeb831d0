"""The book of a run: what it is, what was measured, and where to go on from.

    run.json             what made it, its state, and its end: see `facts`
    metrics.jsonl        one object for each evaluation, appended and flushed: see `diary`
    recorded.jsonl       the same for the metrics recorded in each round
    checkpoint/          see `store`
    groups.json          who is with whom, where clients are in groups: see `groups`
    descriptions/        what clients have said of themselves before round 0, if they were asked: see `archive`
    final.safetensors    the model it reports, by the module's own names; final-NAME.safetensors: the others

All of it hangs together by digests, and whoever reads it checks them. `RunFolder` keeps everything
in memory; `DiskRunFolder` on disk.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from fedflat.errors import LONGEST_WAIT, RunError, number
from fedflat.execution.client_states import ClientStates
from fedflat.experiments.run_folder.checkpoints import Store
from fedflat.experiments.run_folder.description_store import DescriptionStore
from fedflat.experiments.run_folder.fingerprint import check_same_origin, origin_of
from fedflat.experiments.run_folder.groups import GROUPS, Grouped, read_groups, write_groups
from fedflat.experiments.run_folder.jsonl_log import LOGS, LogPosition, Row
from fedflat.experiments.run_folder.model_files import Named, write_models
from fedflat.experiments.run_folder.record import (
    Facts,
    ended,
    new_facts,
    open_logs,
    read_facts,
    same_version,
)
from fedflat.experiments.run_setup import RunSetup
from fedflat.experiments.state import RunState, read_checkpoint
from fedflat.files import NEW, Damaged, hold, refuse_link, unwritable, write_file

Say = Callable[[str], None]
FIRST = "start"
"""The folder of a run that had to be made first, within that of a run."""
DESCRIPTIONS = "descriptions"
"""The folder of what clients have said of themselves before round 0, within that of a run: see
`archive`."""
PAUSE = 20.0
"""Least seconds between two checkpoints, unless told otherwise."""


class RunFolder:
    """A book in memory: nothing survives the process."""

    place: Path | None = None
    """The folder of its checkpoints."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.recorded: list[Row] = []
        self.say: Say = lambda text: None
        self.status = "running"

    def resume(self, clients: ClientStates) -> RunState | None:
        """Where to go on from, with the memories in ``clients``; None for the beginning."""
        return None

    def before(self, setup: RunSetup, place: str = FIRST) -> RunFolder:
        """The book of a run that must be made first, in a folder of that name within this one's."""
        return RunFolder()

    def description_store(self) -> DescriptionStore:
        """Where what clients say of themselves before round 0 is kept."""
        return DescriptionStore()

    def write_groups(self, groups: Grouped | None) -> None:
        """Note who is with whom, where clients are in groups."""

    def write(self, row: Row) -> None:
        """Add an evaluation."""
        self.rows.append(row)

    def see(self, row: Row) -> None:
        """Add what was recorded in a round."""
        self.recorded.append(row)

    def describe(self, labels: Mapping[str, Mapping[str, str]]) -> None:
        """Keep the labels of recorded metrics, by key, for the report."""

    def note(self, seen: Row, row: Row) -> None:
        """Add what was seen and what was measured, where there is any."""
        if seen:
            self.see(seen)
        if row:
            self.write(row)

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        """Make it possible to go on from here."""

    def remember(self, **facts: Any) -> None:
        """Note more about how the run is made."""

    def finish(self, status: str, models: Mapping[str, Named]) -> None:
        """The run has ended: "done" or "diverged"; of its models the last one is reported."""
        self.status = status

    def close(self) -> None:
        """Let go of files."""


class DiskRunFolder(RunFolder):
    """A book in a folder. ``pause`` is the least time in seconds between two checkpoints."""

    def __init__(self, folder: Path, facts: Facts, lock: IO[bytes], pause: float, say: Say) -> None:
        super().__init__()
        self.folder, self.facts, self.pause, self.say = folder, facts, pause, say
        self.status = facts["status"]
        self._lock = lock
        self.place = folder / "checkpoint"
        self._store = Store(self.place)
        self._diaries = open_logs(folder, facts)
        self._written = time.monotonic()
        self._cost = 0.0
        self._other_start = False

    def compare(self, origin: dict[str, Any]) -> None:
        """Refuse to go on with other data or another module; other weights to begin with do only if
        none are needed."""
        recorded = self.facts["origin"]
        check_same_origin(self.folder, recorded, origin)
        self._other_start = recorded.get("start", origin["start"]) != origin["start"]

    @classmethod
    def create(
        cls,
        folder: Path,
        experiment: dict[str, Any],
        config: dict[str, Any],
        *,
        origin: dict[str, Any] | None = None,
        pause: float = PAUSE,
        say: Say = lambda text: None,
    ) -> DiskRunFolder:
        """Make a folder for a new run; ``origin`` tells its data and its module from others."""
        check_pause(pause)
        make_folder(folder)
        lock = hold(folder)
        run_folder = cls(folder, new_facts(experiment, config, origin or {}), lock, pause, say)
        run_folder._save()
        return run_folder

    @classmethod
    def open(
        cls, folder: Path, *, pause: float = PAUSE, say: Say = lambda text: None
    ) -> DiskRunFolder:
        """Open the folder of a run that was begun before."""
        same_version(folder, read_facts(folder)["fedflat"])
        refuse_link(folder / "checkpoint")
        lock = hold(folder)
        try:
            return cls(folder, read_facts(folder), lock, pause, say)
        except BaseException:
            lock.close()
            raise

    def _save(self) -> None:
        write_file(self.folder / "run.json", json.dumps(self.facts, indent=2).encode())

    def resume(self, clients: ClientStates) -> RunState | None:
        """The newest checkpoint that is whole; says so if a newer one was damaged."""
        damaged = False
        for round in self._store.rounds():
            try:
                run, marks = read_checkpoint(self._store, round, self.facts["identity"], clients)
            except Damaged as error:
                damaged = True
                self.say(
                    f"the checkpoint of round {round} is damaged ({error}); trying the one before it."
                )
                self._store.forget(round)
                continue
            self._rewind(marks)
            return run
        if damaged:
            self.say("no checkpoint is whole: the run starts from its beginning.")
        if self._other_start:
            raise RunError(
                f"{self.folder} has no checkpoint and must begin again, but this module has other weights to begin "
                "with. Give it those it had, or start a new run."
            )
        self._rewind({})
        return None

    def before(self, setup: RunSetup, place: str = FIRST) -> RunFolder:
        """A folder within this one, which may be there already."""
        folder = self.folder / place
        if (folder / "run.json").exists():
            run_folder = DiskRunFolder.open(folder, pause=self.pause, say=self.say)
            run_folder.compare(origin_of(setup))
            return run_folder
        made = setup.exp.as_json()
        return DiskRunFolder.create(
            folder,
            made,
            self.facts["how"],
            origin=origin_of(setup),
            pause=self.pause,
            say=self.say,
        )

    def description_store(self) -> DescriptionStore:
        """A folder within this one."""
        return DescriptionStore(self.folder / DESCRIPTIONS, self.facts["identity"], self.say)

    def write_groups(self, groups: Grouped | None) -> None:
        """Write the groups of clients, also in place of a damaged file. Refuse to resume with other
        groups."""
        before, identity = None, self.facts["identity"]
        if groups is None:
            return
        try:
            before = read_groups(self.folder, identity)
        except Damaged as error:
            self.say(f"{self.folder / GROUPS} is damaged ({error}): it is written again.")
        if before is not None and before.groups != groups.groups:
            raise RunError(
                f"{self.folder} was begun with other groups of clients than {groups.by} makes now ({GROUPS} has them). "
                "The version of fedflat or scikit-learn differs. Resume with the version it was begun with, or start a "
                "new run."
            )
        if before is None:
            write_groups(self.folder, identity, groups)

    def _rewind(self, marks: Mapping[str, LogPosition]) -> None:
        """Forget what was written after the checkpoint: it will be written again."""
        self.rows, self.recorded = (self._diaries[name].rewind(marks.get(name)) for name in LOGS)

    def write(self, row: Row) -> None:
        """Append a line and flush it."""
        super().write(row)
        self._diaries["metrics"].append(row)

    def see(self, row: Row) -> None:
        """Append a line and flush it."""
        super().see(row)
        self._diaries["recorded"].append(row)

    def describe(self, labels: Mapping[str, Mapping[str, str]]) -> None:
        """Write them into run.json, beside those of metrics that were recorded before."""
        known = self.facts.get("recorded", {})
        if known | dict(labels) != known:
            self.remember(recorded=known | dict(labels))

    def checkpoint(self, run: RunState, *, force: bool = False) -> None:
        """Write a checkpoint if ``pause`` has passed, or 20 times what the last one cost."""
        now = time.monotonic()
        if not force and now - self._written < max(self.pause, 20 * self._cost):
            return
        self._store.write(
            run.round, run.groups(), {"run": self.facts["identity"], **run.facts(), **self._marks()}
        )
        run.clients.release(min(self._store.rounds()))
        self._written = time.monotonic()
        self._cost = self._written - now

    def _marks(self) -> dict[str, Any]:
        return {name: log.mark._asdict() for name, log in self._diaries.items()}

    def remember(self, **facts: Any) -> None:
        """Write the facts into run.json."""
        self.facts |= facts
        self._save()

    def finish(self, status: str, models: Mapping[str, Named]) -> None:
        """Write the last models and the state."""
        files = write_models(self.folder, models)
        end = {**self._marks(), "models": files, "reported": list(models)[-1]}
        self.facts = ended(self.facts, status, end)
        super().finish(status, models)
        self._save()

    def close(self) -> None:
        """Release the folder."""
        self._lock.close()


def check_pause(seconds: float) -> None:
    """Refuse a time between checkpoints that is none; infinity is fine."""
    if seconds != math.inf:
        number("run", "checkpoint_every", seconds, low=0, high=LONGEST_WAIT)


def make_folder(folder: Path) -> None:
    """Make an empty folder; one in which a run was broken off before its first word counts as
    empty."""
    try:
        taken = os.path.lexists(folder) and not (
            folder.is_dir() and all(map(_CRADLE.fullmatch, os.listdir(folder)))
        )
        begun = taken and any(os.path.lexists(folder / name) for name in ("run.json", "study.json"))
        if not taken:
            folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise unwritable(folder, error) from error
    if taken:
        hint = f"`fedflat resume {folder}` goes on with it; " if begun else ""
        raise RunError(
            f"{folder} is already there and not empty. {hint}--out names another folder."
        )


_CRADLE = re.compile(rf"lock|(run|study)\.json\.\d+{re.escape(NEW)}")
