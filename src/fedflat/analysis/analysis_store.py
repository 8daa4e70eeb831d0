"""Stored analyses of a run: one JSON file for each finished one, and files of partial results.

analysis/KIND-DIGEST.json        kind, settings, result; the digest is that of kind and settings
analysis/KIND-DIGEST.part.json   the partial result of an interrupted analysis
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedflat.analysis.analysis import Result, analyses
from fedflat.core.json_schema import Schema, check
from fedflat.experiments.run_folder.jsonl_log import encode
from fedflat.experiments.run_folder.schema import signed, verified
from fedflat.files import Damaged, digest, discard, own_folder, read_json, write_file
from fedflat.version import __version__

Settings = Mapping[str, Any]
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
    """The folder `analysis` of the run `identity`."""

    folder: Path
    identity: str

    def path(self, kind: str, settings: Settings) -> Path:
        """Return the path of an analysis with these settings. It need not exist."""
        text = json.dumps([kind, settings], sort_keys=True)
        return self.folder / f"{kind}-{digest(text.encode()).hex()[:12]}.json"

    def result(self, kind: str, settings: Settings) -> Result | None:
        return self._read(read_analysis, self.path(kind, settings), kind, settings).get("result")

    def save(self, kind: str, settings: Settings, result: Result, seconds: float) -> Path:
        """Write a finished analysis and delete its partial result."""
        made = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        content = {
            "kind": kind,
            "settings": settings,
            "fedflat": __version__,
            "made": made,
            "seconds": round(seconds, 3),
            "result": result,
        }
        path = self.path(kind, settings)
        self._write(path, content)
        discard(self._part(path))
        return path

    def load_partial(self, kind: str, settings: Settings) -> Any:
        """Return the partial result of an interrupted analysis, or None."""
        return self._read(_read_part, self._part(self.path(kind, settings)), kind, settings).get(
            "found"
        )

    def save_partial(self, kind: str, settings: Settings, partial: Any) -> None:
        self._write(
            self._part(self.path(kind, settings)),
            {"kind": kind, "settings": settings, "found": partial},
        )

    def _part(self, path: Path) -> Path:
        return path.with_suffix(".part.json")

    def _write(self, path: Path, content: Mapping[str, Any]) -> None:
        own_folder(self.folder)
        values = json.loads(encode({**content, "run": self.identity}))
        write_file(path, encode(signed(values)))

    def _read(
        self, read: Callable[[Path, str], dict[str, Any]], path: Path, kind: str, settings: Settings
    ) -> dict[str, Any]:
        """Return the content of a file. Empty if it is damaged or of another analysis."""
        try:
            saved = read(path, self.identity)
        except Damaged:
            return {}
        return saved if (saved["kind"], saved["settings"]) == (kind, settings) else {}


def read_analysis(path: Path, identity: str) -> dict[str, Any]:
    """Read the file of a finished analysis of the run `identity`.

    Raises `Damaged` if the file was changed, is incomplete, or belongs to another run.
    """
    saved = _read_checked(path, FINISHED, identity)
    check(saved["result"], _schema(saved["kind"], "result_schema"), "result")
    return saved


def _read_part(path: Path, identity: str) -> dict[str, Any]:
    saved = _read_checked(path, PART, identity)
    check(saved["found"], _schema(saved["kind"], "partial_schema"), "found")
    return saved


def _schema(kind: str, of: str) -> Schema:
    """Return a schema of an analysis; anything fits kinds that are not known."""
    return getattr(analyses().get(kind), of, object)


def _read_checked(path: Path, schema: Schema, identity: str) -> dict[str, Any]:
    saved: dict[str, Any] = read_json(path)
    check(saved, schema)
    saved = verified(saved)
    if saved["run"] != identity:
        raise Damaged("it belongs to another run")
    return saved
