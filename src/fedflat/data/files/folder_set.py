"""Sets that are read where their authors' archives were unpacked, because only their authors may
give them away."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from fedflat.data.federation import DataSpec
from fedflat.data.files.paths import roots
from fedflat.errors import DataError
from fedflat.registry.specs import name_of


class FolderSet(DataSpec):
    """A set in a folder as it is published, which people get by hand."""

    folders: ClassVar[tuple[str, ...]]
    """Names its folder goes by."""
    needed: ClassVar[tuple[str, ...]]
    """What must be in it, as paths or patterns."""
    by_hand: ClassVar[str]
    """How people get it, in a sentence."""

    @property
    def name(self) -> str:
        """The name it is said by."""
        return name_of(type(self))

    @classmethod
    def there(cls) -> Path | None:
        """Its folder if it is on this machine: by one of its names in a place that is looked into,
        or that place."""
        return next(
            (folder for folder in _candidates(cls.folders) if not _missing(folder, cls.needed)),
            None,
        )

    def folder(self) -> Path:
        """Its folder, or an error that says what was looked for where, and what to do."""
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
            f"{self.name} is not on this machine (looked in {looked}).{partly} {self.by_hand} If you have it "
            "elsewhere, say so with --data-dir or $FEDFLAT_DATA."
        )


def _candidates(names: Sequence[str]) -> list[Path]:
    return [folder for root in roots() for folder in (*(root / name for name in names), root)]


def _missing(folder: Path, needed: Sequence[str]) -> list[str]:
    return [part for part in needed if next(folder.glob(part), None) is None]
