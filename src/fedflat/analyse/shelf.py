"""Finished analyses beside a run, one JSON file each, and what there is of unfinished ones.

    analysis/KIND-DIGEST.json        kind, settings, result; the digest is that of kind and settings
    analysis/KIND-DIGEST.part.json   how far one that was interrupted had come
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedflat.files import digest, unwritable, write_file
from fedflat.version import __version__

Settings = Mapping[str, Any]
Result = dict[str, Any]


@dataclass(frozen=True)
class Shelf:
    """The ``analysis`` folder of a run."""

    folder: Path

    def path(self, kind: str, settings: Settings) -> Path:
        """Where an analysis with these settings is, or would be."""
        text = json.dumps([kind, settings], sort_keys=True)
        return self.folder / f"{kind}-{digest(text.encode()).hex()[:12]}.json"

    def result(self, kind: str, settings: Settings) -> Result | None:
        """What was found before with the same settings; None if nothing was, or it cannot be read."""
        saved = _read(self.path(kind, settings))
        return saved["result"] if saved and saved.get("settings") == settings and "result" in saved else None

    def save(self, kind: str, settings: Settings, result: Result, seconds: float) -> Path:
        """Write a finished analysis, and forget how far it had come."""
        made = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        whole = {
            "kind": kind, "settings": settings, "fedflat": __version__, "made": made, "seconds": round(seconds, 3),
            "result": result,
        }  # fmt: skip
        path = self.path(kind, settings)
        self._write(path, whole)
        self._part(path).unlink(missing_ok=True)
        return path

    def begun(self, kind: str, settings: Settings) -> Any:
        """What an interrupted analysis had found; None if there was none."""
        saved = _read(self._part(self.path(kind, settings)))
        return saved["found"] if saved and saved.get("settings") == settings and "found" in saved else None

    def note(self, kind: str, settings: Settings, found: Any) -> None:
        """Write down what was found so far."""
        self._write(self._part(self.path(kind, settings)), {"settings": settings, "found": found})

    def _part(self, path: Path) -> Path:
        return path.with_suffix(".part.json")

    def _write(self, path: Path, content: Mapping[str, Any]) -> None:
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise unwritable(self.folder, error) from error
        write_file(path, json.dumps(content, allow_nan=False).encode())


def _read(path: Path) -> dict[str, Any] | None:
    try:
        saved = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return saved if isinstance(saved, dict) else None
