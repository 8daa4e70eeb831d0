"""Finished analyses beside a run, one JSON file each, and what there is of unfinished ones.

analysis/KIND-DIGEST.json        kind, settings, result; the digest is that of kind and settings
analysis/KIND-DIGEST.part.json   how far one that was interrupted had come
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedflat.analysis import kinds
from fedflat.core.json_schema import Schema, check
from fedflat.experiments.run_folder.jsonl_log import encode
from fedflat.experiments.run_folder.signed import signed, verified
from fedflat.files import Damaged, digest, discard, own_folder, read_json, write_file
from fedflat.version import __version__

Settings = Mapping[str, Any]
Result = dict[str, Any]
FINISHED = {
    "kind": str,
    "settings": {"*": object},
    "fedflat": str,
    "made": str,
    "seconds": float,
    "result": {"*": object},
    "run": str,
    "digest": str,
}
PART = {"kind": str, "settings": {"*": object}, "found": object, "run": str, "digest": str}


@dataclass(frozen=True)
class AnalysisStore:
    """The ``analysis`` folder of the run ``identity``."""

    folder: Path
    identity: str

    def path(self, kind: str, settings: Settings) -> Path:
        """Where an analysis with these settings is, or would be."""
        text = json.dumps([kind, settings], sort_keys=True)
        return self.folder / f"{kind}-{digest(text.encode()).hex()[:12]}.json"

    def result(self, kind: str, settings: Settings) -> Result | None:
        """What was found before with the same settings; None if nothing was, or it cannot be
        read."""
        return self._found(read_analysis, self.path(kind, settings), kind, settings).get("result")

    def save(self, kind: str, settings: Settings, result: Result, seconds: float) -> Path:
        """Write a finished analysis, and forget how far it had come."""
        made = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        whole = {
            "kind": kind,
            "settings": settings,
            "fedflat": __version__,
            "made": made,
            "seconds": round(seconds, 3),
            "result": result,
        }
        path = self.path(kind, settings)
        self._write(path, whole)
        discard(self._part(path))
        return path

    def begun(self, kind: str, settings: Settings) -> Any:
        """What an interrupted analysis had found; None if there was none."""
        return self._found(_read_part, self._part(self.path(kind, settings)), kind, settings).get(
            "found"
        )

    def note(self, kind: str, settings: Settings, found: Any) -> None:
        """Write down what was found so far."""
        self._write(
            self._part(self.path(kind, settings)),
            {"kind": kind, "settings": settings, "found": found},
        )

    def _part(self, path: Path) -> Path:
        return path.with_suffix(".part.json")

    def _write(self, path: Path, content: Mapping[str, Any]) -> None:
        own_folder(self.folder)
        whole = json.loads(encode({**content, "run": self.identity}))
        write_file(path, encode(signed(whole)))

    def _found(
        self, read: Callable[[Path, str], dict[str, Any]], path: Path, kind: str, settings: Settings
    ) -> dict[str, Any]:
        """What a file says of such an analysis; nothing if it is of another one, or cannot be
        believed."""
        try:
            saved = read(path, self.identity)
        except Damaged:
            return {}
        return saved if (saved["kind"], saved["settings"]) == (kind, settings) else {}


def read_analysis(path: Path, identity: str) -> dict[str, Any]:
    """What the file of a finished analysis of a run says; `Damaged` if it is not as it was
    written."""
    saved = _checked(path, FINISHED, identity)
    check(saved["result"], kinds.RESULTS.get(saved["kind"], object), "result")
    return saved


def _read_part(path: Path, identity: str) -> dict[str, Any]:
    saved = _checked(path, PART, identity)
    check(saved["found"], kinds.BEGUN.get(saved["kind"], object), "found")
    return saved


def _checked(path: Path, schema: Schema, identity: str) -> dict[str, Any]:
    saved: dict[str, Any] = read_json(path)
    check(saved, schema)
    saved = verified(saved)
    if saved["run"] != identity:
        raise Damaged("it is of another run")
    return saved
