"""The named data sets and where their files are on this machine.

``catalogue.json`` describes fedflat's own data sets, so that they can be listed without importing
them. ``python -m fedflat.public`` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedflat.data.files.paths import FileLayout, FolderLayout, find

FILE = Path(__file__).with_name("catalogue.json")


@dataclass(frozen=True)
class CatalogueEntry:
    """A data set: its description, the layout of its files, and how to get them."""

    name: str
    summary: str
    files: FileLayout | None = None
    """The files of a set that `fedflat data get` downloads."""
    folder: FolderLayout | None = None
    """The folder of a set that users download by hand."""
    advice: str = ""
    """How to get the files; where the data come from, if there are none."""

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> CatalogueEntry:
        files, folder = saved["files"], saved["folder"]
        return cls(
            saved["name"],
            saved["summary"],
            files
            and FileLayout(
                **{**files, "folders": tuple(files["folders"]), "files": tuple(files["files"])}
            ),
            folder and FolderLayout(tuple(folder["folders"]), tuple(folder["needed"])),
            saved["advice"],
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def where(self) -> Path | None:
        """The folder of its files on this machine; None if they are missing, or if there are
        none."""
        if self.folder is not None:
            return self.folder.find()
        found = None if self.files is None else find(self.files)
        return found[0].parent if found else None

    @property
    def ready(self) -> bool:
        """Whether the set can be used: its files are on this machine, or it needs none."""
        return (self.files is None and self.folder is None) or self.where is not None


def builtin_entries() -> list[CatalogueEntry]:
    """fedflat's own data sets by name, as `catalogue.json` has them."""
    return list(map(CatalogueEntry.from_json, json.loads(FILE.read_text())))


def catalogue_text(entries: Sequence[CatalogueEntry]) -> str:
    return json.dumps([entry.as_json() for entry in entries], indent=1, ensure_ascii=False) + "\n"
