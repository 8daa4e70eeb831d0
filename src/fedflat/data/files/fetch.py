"""Downloading of data sets, for ``fedflat data get NAME``."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np

from fedflat.data.files.catalogue import CatalogueEntry
from fedflat.data.files.paths import home
from fedflat.data.files.sources import FolderSet, OnMessage, UnavailableError
from fedflat.data.named_set import FileSet, RawSet
from fedflat.errors import DataError
from fedflat.registry.specs import RegisteredName, registered
from fedflat.registry.specs import find as find_entry


def entries() -> list[CatalogueEntry]:
    """All named data sets by name, those of plugins too."""
    found = []
    for entry in registered("data set"):
        if not getattr(entry.make, "stored", True):
            continue
        files, folder = _file_set(entry), _folder_set(entry)
        found.append(
            CatalogueEntry(
                entry.name,
                entry.summary,
                None if files is None else files.layout,
                None if folder is None else folder.layout(),
                f"fedflat data get {entry.name}"
                if files is not None
                else origin(entry.name)
                if folder is None
                else folder.by_hand,
            )
        )
    return found


def _file_set(entry: RegisteredName) -> type[FileSet] | None:
    make = entry.make
    return make if isinstance(make, type) and issubclass(make, FileSet) else None


def _folder_set(entry: RegisteredName) -> type[FolderSet] | None:
    make = entry.make
    return make if isinstance(make, type) and issubclass(make, FolderSet) else None


def origin(name: str) -> str:
    """The origin of the data set ``name``, if it has no files."""
    entry = find_entry(name, "data set")
    described = getattr(entry.make, "origin", "")
    return described or ("" if entry.plugin is None else f"comes from {entry.plugin.name}")


def get(name: str, directory: Path | None = None, on_message: OnMessage = print) -> Path | None:
    """Download a data set into a folder of ``directory``; returns it, or None if no files are
    needed.

    The sources are tried in turn: the authors' archive, then a package. Files are read and counted
    before they are moved into place, so an interrupted or damaged download leaves nothing behind.
    """
    entry = find_entry(name, "data set")
    if (by_hand := _folder_set(entry)) is not None:
        where = by_hand.there()
        if where is None:
            raise DataError(f"{name} cannot be fetched from here. {by_hand.by_hand}")
        on_message(f"{name} is already in {where}.")
        return where
    kind = _file_set(entry)
    if kind is None:
        on_message(f"{name} {origin(name)}: there is nothing to fetch.")
        return None
    directory = directory or home()
    target = directory / kind.layout.home
    if all(kind.layout.file(target, file) for file in kind.layout.files):
        on_message(f"{name} is already in {target}.")
        return target
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # Child processes run in it.
        scratch = Path(tempfile.mkdtemp(prefix=".fetching-", dir=directory.absolute()))
    except OSError as error:
        raise DataError(
            f"cannot write to {directory}: {error.strerror}. Choose another --data-dir."
        ) from None
    try:
        ready = _first_that_works(name, kind, scratch, on_message)
        _put_in_place(ready, target, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    on_message(f"{name} is in {target}.")
    return target


def _first_that_works(name: str, kind: type[FileSet], scratch: Path, on_message: OnMessage) -> Path:
    reasons = []
    for number, source in enumerate(kind.sources):
        work, folder = scratch / f"work{number}", scratch / f"set{number}"
        work.mkdir()
        try:
            source(folder, work, on_message)
            check(name, kind, folder)
            return folder
        except (UnavailableError, DataError, OSError) as error:
            reasons.append(str(error))
            on_message(f"not from here: {error}")
        shutil.rmtree(work, ignore_errors=True)
    by_hand = (
        f"If you have its files, put them into a folder {kind.layout.home} and give --data-dir "
        "its parent."
    )
    why = "; ".join(reasons) or "no source for it is known"
    raise DataError(f"{name} could not be fetched: {why}. {by_hand} {kind.by_hand}".rstrip())


def check(name: str, kind: type[FileSet], folder: Path) -> RawSet:
    """Read the set in ``folder`` and count its examples; an error if it is incomplete."""
    files = [kind.layout.file(folder, file) for file in kind.layout.files]
    present = [file for file in files if file is not None]
    if len(present) < len(files):
        raise DataError(f"{name} must have {len(files)} files, found {len(present)}.")
    raw = kind.read(present)
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
                f"{name} must have {total // raw.classes} examples of each class, found "
                f"{each.min()} to {each.max()}."
            )
    return raw


def _put_in_place(ready: Path, target: Path, scratch: Path) -> None:
    """Rename ``ready`` to ``target``; an incomplete folder there moves to the scratch folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        os.replace(target, scratch / "before")
    os.replace(ready, target)
