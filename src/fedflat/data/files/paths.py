"""Where the files of the data sets are looked for.

In this order: the folder of `set_data_dir` (``--data-dir`` on the command line), ``$FEDFLAT_DATA``,
the user's cache folder, and the folder of the system's packages.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedflat.errors import DataError

SYSTEM = Path("/usr/share/datasets")
_chosen: Path | None = None
_remembered: Path | None = None


@dataclass(frozen=True)
class FileLayout:
    """The files of one data set, and the names a folder of them goes by."""

    folders: tuple[str, ...]
    files: tuple[str, ...]
    compressed: bool = False

    @property
    def home(self) -> str:
        """The folder it is fetched into."""
        return self.folders[0]

    def file(self, folder: Path, name: str) -> Path | None:
        """The file called ``name`` in ``folder``, perhaps compressed."""
        for path in (folder / name, folder / f"{name}.gz") if self.compressed else (folder / name,):
            if path.is_file():
                return path
        return None


def set_data_dir(folder: str | Path | None) -> None:
    """Look in ``folder`` first from now on, in this process; ``None`` takes that back."""
    global _chosen
    _chosen = None if folder is None else Path(os.path.expanduser(folder))


def check_data_dir() -> None:
    """Refuse a chosen folder that is not there: others would be looked into in its place."""
    if _chosen is not None and not _chosen.is_dir():
        raise DataError(
            f"the folder of data {_chosen} is not there. Check --data-dir, or set_data_dir in Python."
        )


def data_place() -> str | None:
    """The folder that was chosen for data, for this process or by ``$FEDFLAT_DATA``, to be
    remembered with a run."""
    said = _chosen or _remembered or os.environ.get("FEDFLAT_DATA")
    return os.path.abspath(os.path.expanduser(said)) if said else None


@contextmanager
def remembered(place: str | None) -> Iterator[None]:
    """Look into a folder that a run remembers, too, right after the one that is chosen."""
    global _remembered
    before, _remembered = _remembered, Path(place) if place else _remembered
    try:
        yield
    finally:
        _remembered = before


def cache_dir() -> Path:
    """The folder of this user for data that can be fetched again."""
    if sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "fedflat"


def roots() -> list[Path]:
    """The folders that are looked into, the first one first."""
    said = os.environ.get("FEDFLAT_DATA")
    given = [folder for folder in (_chosen, _remembered) if folder is not None]
    return [*given, *([Path(os.path.expanduser(said))] if said else []), cache_dir(), SYSTEM]


def home() -> Path:
    """The folder that data are fetched into if no other is said."""
    return roots()[0]


def find(layout: FileLayout) -> list[Path] | None:
    """The files of a set, in the order of its layout, from the first folder that has them all."""
    for folder in _candidates(layout):
        files = [layout.file(folder, name) for name in layout.files]
        if all(files):
            return [file for file in files if file is not None]
    return None


def locate(name: str, layout: FileLayout) -> list[Path]:
    """The files of the set called ``name``, or an error that says where they were looked for and
    how to get them."""
    files = find(layout)
    if files is not None:
        return files
    partly = ""
    for folder in _candidates(layout):
        missing = [file for file in layout.files if layout.file(folder, file) is None]
        if len(missing) < len(layout.files):
            partly = f" {folder} is there, but without {', '.join(missing)}."
            break
    looked = ", ".join(str(root / layout.home) for root in roots())
    raise DataError(
        f"{name} is not on this machine (looked in {looked}).{partly} Fetch it with `fedflat data get "
        f"{name}`; if you have it elsewhere, say so with --data-dir or $FEDFLAT_DATA."
    )


def _candidates(layout: FileLayout) -> list[Path]:
    """The folders by the set's names in each root, then the roots themselves, which people point at
    too."""
    folders = []
    for root in roots():
        folders += [root / name for name in layout.folders]
        if root not in (cache_dir(), SYSTEM) and not layout.compressed:
            folders.append(root)
    return folders
