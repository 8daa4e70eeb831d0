"""Data sets that users download themselves, because only their authors may distribute them."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from fedflat.data.federation import DataSpec
from fedflat.data.files.paths import FolderLayout, roots
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
    def layout(cls) -> FolderLayout:
        """The names of its folder, and what must be in it."""
        return FolderLayout(cls.folders, cls.needed)

    @classmethod
    def there(cls) -> Path | None:
        """Its folder on this machine: a search path with one of its names, or the path itself; or
        None."""
        return cls.layout().find()

    def folder(self) -> Path:
        """Its folder, or an error with the searched paths and what to do."""
        found, layout = self.there(), self.layout()
        if found is not None:
            return found
        partly = ""
        for folder in layout.candidates():
            missing = layout.missing(folder)
            if len(missing) < len(self.needed):
                partly = f" {folder} is there, but without {', '.join(missing)}."
                break
        looked = ", ".join(str(root / self.folders[0]) for root in roots())
        raise DataError(
            f"{self.name} is not on this machine (looked in {looked}).{partly} {self.by_hand} If "
            "you have it elsewhere, set --data-dir or $FEDFLAT_DATA."
        )
