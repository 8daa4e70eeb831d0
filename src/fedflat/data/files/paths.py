"""Search paths of data files.

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
    """The files of one data set, and possible names of their folder."""

    folders: tuple[str, ...]
    files: tuple[str, ...]
    compressed: bool = False
    """Whether files may have the ending .gz."""
    json_folders: bool = False
    """Whether ``files`` are folders of JSON files, as in LEAF."""

    @property
    def home(self) -> str:
        """The folder into which it is downloaded."""
        return self.folders[0]

    def file(self, folder: Path, name: str) -> Path | None:
        """The file ``name`` in ``folder``, perhaps compressed; or None."""
        if self.json_folders:
            return folder / name if any((folder / name).glob("*.json")) else None
        for path in (folder / name, folder / f"{name}.gz") if self.compressed else (folder / name,):
            if path.is_file():
                return path
        return None


@dataclass(frozen=True)
class FolderLayout:
    """The folder of one data set as published."""

    folders: tuple[str, ...]
    """Possible names of the folder."""
    needed: tuple[str, ...]
    """Paths or patterns that must exist in it."""

    def candidates(self) -> list[Path]:
        """Folders with these names in each search path, and the paths themselves."""
        return [
            folder for root in roots() for folder in (*(root / name for name in self.folders), root)
        ]

    def missing(self, folder: Path) -> list[str]:
        return [part for part in self.needed if next(folder.glob(part), None) is None]

    def find(self) -> Path | None:
        """The first folder that has everything; None if there is none."""
        return next((folder for folder in self.candidates() if not self.missing(folder)), None)


def set_data_dir(folder: str | Path | None) -> None:
    """Search ``folder`` first from now on, in this process; ``None`` undoes it."""
    global _chosen
    _chosen = None if folder is None else Path(os.path.expanduser(folder))


def check_data_dir() -> None:
    """Refuse a chosen folder that does not exist, instead of searching elsewhere."""
    if _chosen is not None and not _chosen.is_dir():
        raise DataError(
            f"the folder of data {_chosen} is not there. Check --data-dir, or set_data_dir in "
            "Python."
        )


def data_place() -> str | None:
    """The chosen data folder, by `set_data_dir` or ``$FEDFLAT_DATA``, to be stored with a run."""
    folder = _chosen or _remembered or os.environ.get("FEDFLAT_DATA")
    return os.path.abspath(os.path.expanduser(folder)) if folder else None


@contextmanager
def remembered(place: str | None) -> Iterator[None]:
    """Context that also searches the data folder stored with a run, after the chosen one."""
    global _remembered
    before, _remembered = _remembered, Path(place) if place else _remembered
    try:
        yield
    finally:
        _remembered = before


def cache_dir() -> Path:
    """The user's cache folder for data."""
    if sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "fedflat"


def roots() -> list[Path]:
    """All search paths in order."""
    from_environment = os.environ.get("FEDFLAT_DATA")
    explicit = [folder for folder in (_chosen, _remembered) if folder is not None]
    return [
        *explicit,
        *([Path(os.path.expanduser(from_environment))] if from_environment else []),
        cache_dir(),
        SYSTEM,
    ]


def home() -> Path:
    """The default folder for downloads."""
    return roots()[0]


def find(layout: FileLayout) -> list[Path] | None:
    """The files of a set, in the order of its layout, from the first folder that has them all."""
    for folder in _candidates(layout):
        files = [layout.file(folder, name) for name in layout.files]
        if all(files):
            return [file for file in files if file is not None]
    return None


def locate(name: str, layout: FileLayout) -> list[Path]:
    """The files of the set ``name``, or an error with the searched paths and what to do."""
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
        f"{name} is not on this machine (looked in {looked}).{partly} Fetch it with `fedflat data "
        f"get {name}`; if you have it elsewhere, set --data-dir or $FEDFLAT_DATA."
    )


def _candidates(layout: FileLayout) -> list[Path]:
    """Folders with the set's names in each search path, then the paths themselves."""
    folders = []
    for root in roots():
        folders += [root / name for name in layout.folders]
        if root not in (cache_dir(), SYSTEM) and not layout.compressed:
            folders.append(root)
    return folders
