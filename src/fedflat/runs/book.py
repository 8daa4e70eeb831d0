"""The book of a run: what it is, what was measured, and where to go on from.

    run.json             the texts that made it, version, seed, machine, state
    metrics.jsonl        one object for each evaluation, appended and flushed
    watch.jsonl          the same for each round that was watched
    checkpoint/          see `store`
    final.safetensors    the last model, and the shadows'

`RunBook` keeps everything in memory; `FolderBook` on disk.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import torch

from fedflat.client.states import ClientStates
from fedflat.errors import LONGEST_WAIT, RunError, number
from fedflat.files import Damaged, pack, unwritable, write_file
from fedflat.flat import Model
from fedflat.runs.state import CLIENTS, Run, run_of
from fedflat.runs.store import Store
from fedflat.version import __version__

Row = dict[str, Any]
Say = Callable[[str], None]
DIARIES = ("metrics", "watch")
"""Files of rows that grow as the run goes on; a checkpoint knows how long they were."""
PAUSE = 20.0
"""Least seconds between two checkpoints, unless told otherwise."""


class RunBook:
    """A book in memory: nothing survives the process."""

    place: Path | None = None
    """The folder of its checkpoints."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.watched: list[Row] = []
        self.say: Say = lambda text: None
        self.status = "running"

    def resume(self, clients: ClientStates) -> Run | None:
        """Where to go on from, with the memories in ``clients``; None for the beginning."""
        return None

    def write(self, row: Row) -> None:
        """Add an evaluation."""
        self.rows.append(row)

    def watch(self, row: Row) -> None:
        """Add what was seen in a round."""
        self.watched.append(row)

    def checkpoint(self, run: Run, *, force: bool = False) -> None:
        """Make it possible to go on from here."""

    def remember(self, **facts: Any) -> None:
        """Note more about how the run is made."""

    def finish(self, status: str, models: dict[str, Model]) -> None:
        """The run has ended: "done" or "diverged"."""
        self.status = status

    def close(self) -> None:
        """Let go of files."""


class FolderBook(RunBook):
    """A book in a folder. ``pause`` is the least time in seconds between two checkpoints."""

    def __init__(self, folder: Path, facts: dict[str, Any], lock: IO[str], pause: float, say: Say) -> None:
        super().__init__()
        self.folder, self.facts, self.pause, self.say = folder, facts, pause, say
        self.status = facts["status"]
        self._lock = lock
        self.place = folder / "checkpoint"
        self._store = Store(self.place)
        self._written = time.monotonic()
        self._cost = 0.0

    @classmethod
    def create(
        cls, folder: Path, experiment: dict[str, Any], how: dict[str, Any], *, pause: float = PAUSE,
        say: Say = lambda text: None,
    ) -> FolderBook:  # fmt: skip
        """Make a folder for a new run."""
        check_pause(pause)
        make_folder(folder)
        facts = {
            "fedflat": __version__,
            "status": "running",
            "experiment": experiment,
            "how": how,
            "made": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "machine": machine(),
        }
        lock = _lock(folder)
        book = cls(folder, facts, lock, pause, say)
        book._save()
        return book

    @classmethod
    def open(cls, folder: Path, *, pause: float = PAUSE, say: Say = lambda text: None) -> FolderBook:
        """Open the folder of a run that was begun before."""
        facts = read_facts(folder)
        same_version(folder, facts["fedflat"])
        return cls(folder, facts, _lock(folder), pause, say)

    def _save(self) -> None:
        write_file(self.folder / "run.json", json.dumps({**self.facts, "status": self.status}, indent=2).encode())

    def resume(self, clients: ClientStates) -> Run | None:
        """The newest checkpoint that is whole; says so if a newer one was damaged."""
        damaged = False
        for round in self._store.rounds():
            try:
                groups, facts = self._store.read(round)
                clients.restore({known: self._store.group(known, CLIENTS) for known in self._store.rounds()})
            except Damaged as error:
                damaged = True
                self.say(f"the checkpoint of round {round} is damaged ({error}); trying the one before it.")
                self._store.forget(round)
                continue
            self._trim(facts)
            return run_of(round, groups, facts, clients)
        if damaged:
            self.say("no checkpoint is whole: the run starts from its beginning.")
        self._trim({})
        return None

    def _trim(self, lengths: dict[str, Any]) -> None:
        """Forget what was written after the checkpoint: it will be written again."""
        for name in DIARIES:
            path = self.folder / f"{name}.jsonl"
            try:
                if path.exists():
                    os.truncate(path, min(lengths.get(name, 0), path.stat().st_size))
            except OSError as error:
                raise unwritable(path, error) from error
        self.rows, self.watched = (read_rows(self.folder, name) for name in DIARIES)

    def write(self, row: Row) -> None:
        """Append a line and flush it."""
        super().write(row)
        self._append("metrics", row)

    def watch(self, row: Row) -> None:
        """Append a line and flush it."""
        super().watch(row)
        self._append("watch", row)

    def _append(self, name: str, row: Row) -> None:
        path = self.folder / f"{name}.jsonl"
        try:
            with open(path, "a", encoding="utf-8") as stream:
                stream.write(json.dumps(_without_nan(row), allow_nan=False) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise unwritable(path, error) from error

    def checkpoint(self, run: Run, *, force: bool = False) -> None:
        """Write a checkpoint if ``pause`` has passed, or 20 times what the last one cost."""
        now = time.monotonic()
        if not force and now - self._written < max(self.pause, 20 * self._cost):
            return
        paths = {name: self.folder / f"{name}.jsonl" for name in DIARIES}
        lengths = {name: path.stat().st_size for name, path in paths.items() if path.exists()}
        self._store.write(run.round, run.groups(), {**run.facts(), **lengths})
        run.clients.release(min(self._store.rounds()))
        self._written = time.monotonic()
        self._cost = self._written - now

    def remember(self, **facts: Any) -> None:
        """Write the facts into run.json."""
        self.facts |= facts
        self._save()

    def finish(self, status: str, models: dict[str, Model]) -> None:
        """Write the last models and the state."""
        tensors = {f"{name}/{part}": getattr(m, part) for name, m in models.items() for part in ("params", "buffers")}
        write_file(self.folder / "final.safetensors", pack(tensors))
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
    """Make an empty folder; one in which a run was broken off before its first word counts as empty."""
    try:
        if folder.exists() and (
            not folder.is_dir() or any(p.name not in ("lock", "run.json.new") for p in folder.iterdir())
        ):
            begun = (folder / "run.json").exists() or (folder / "study.json").exists()
            hint = f"`fedflat resume {folder}` goes on with it; " if begun else ""
            raise RunError(f"{folder} is already there and not empty. {hint}--out names another folder.")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error


def same_version(folder: Path, version: str) -> None:
    """Refuse to go on with what another version began."""
    if version != __version__:
        raise RunError(
            f"{folder} was made by fedflat {version}, this is {__version__}, and may compute other numbers. "
            f"Install fedflat=={version} to go on with it, or start anew."
        )


def read_facts(folder: Path) -> dict[str, Any]:
    """What run.json says."""
    path = folder / "run.json"
    if not path.exists():
        raise RunError(f"{folder} is not a run folder: it has no run.json.")
    try:
        facts = json.loads(path.read_text())
        facts["fedflat"], facts["experiment"], facts["status"], facts["how"]
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is damaged ({error}). The run cannot be continued; start it anew.") from None
    return facts  # type: ignore[no-any-return]


def read_rows(folder: Path, name: str = "metrics") -> list[Row]:
    """The evaluations of a run, or what was seen in it; a last line that was cut short is left out."""
    path = folder / f"{name}.jsonl"
    rows: list[Row] = []
    for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
        try:
            rows.append(_with_nan(json.loads(line)))
        except ValueError:
            break
    return rows


def _without_nan(value: Any) -> Any:
    """Numbers that are not finite as null, which every reader of JSON understands."""
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _with_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_nan(inner) for inner in value]
    return math.nan if value is None else value


def _lock(folder: Path) -> IO[str]:
    try:
        lock = open(folder / "lock", "w")  # noqa: SIM115 (held until the book is closed)
    except OSError as error:
        raise unwritable(folder / "lock", error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise RunError(f"another process is working in {folder}. Wait for it, or stop it first.") from None
    return lock


def machine() -> dict[str, Any]:
    """What the numbers were computed on."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }
