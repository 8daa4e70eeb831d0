"""Data sets that users download themselves, because only their authors may distribute them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from fedflat.data.federation import DataSpec
from fedflat.data.files.paths import roots
from fedflat.errors import DataError
from fedflat.registry.specs import name_of


class FolderSet(DataSpec):
    """A set in a folder as published, which users download by hand."""

    folders: ClassVar[tuple[str, ...]]
    """Possible names of its folder."""
    needed: ClassVar[tuple[str, ...]]
    """Paths or patterns that must exist in it."""
    by_hand: ClassVar[str]
    """A sentence that says how to get it."""

    @property
    def name(self) -> str:
        """The registered name."""
        return name_of(type(self))

    @classmethod
    def there(cls) -> Path | None:
        """Its folder on this machine: a search path with one of its names, or the path itself; or
        None."""
        return next(
            (folder for folder in _candidates(cls.folders) if not _missing(folder, cls.needed)),
            None,
        )

    def folder(self) -> Path:
        """Its folder, or an error with the searched paths and what to do."""
        found = self.there()
        if found is not None:
            return found
        partly = ""
        for folder in _candidates(self.folders):
            missing = _missing(folder, self.needed)
            if len(missing) < len(self.needed):
                partly = f" {folder} is there, but without {', '.join(missing)}."
                break
        looked = ", ".join(str(root / self.folders[0]) for root in roots())
        raise DataError(
            f"{self.name} is not on this machine (looked in {looked}).{partly} {self.by_hand} If "
            "you have it elsewhere, set --data-dir or $FEDFLAT_DATA."
        )


def _candidates(names: Sequence[str]) -> list[Path]:
    return [folder for root in roots() for folder in (*(root / name for name in names), root)]


def _missing(folder: Path, needed: Sequence[str]) -> list[str]:
    return [part for part in needed if next(folder.glob(part), None) is None]
