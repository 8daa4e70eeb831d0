"""Find the runs and studies in a folder, and detect changes in them."""

from __future__ import annotations

import os
from pathlib import Path

DEPTH = 5
"""How deep below a folder runs are looked for; a run of a study in runs/ is three folders below
it."""

Stamp = tuple[str, int, int]
"""A file, when it was changed, and how long it is."""


def look(folder: Path) -> tuple[list[Path], list[Stamp]]:
    """The runs and studies in a folder, or the folder itself if it is one; and the stamps of all
    that belong to them.

    Equal stamps mean that nothing has happened, and taking them reads no file.
    """
    found: list[Path] = []
    stamps: list[Stamp] = []
    for root, below, files in os.walk(folder):
        here = Path(root)
        below[:] = sorted(name for name in below if not name.startswith("."))
        if "run.json" in files or "study.json" in files:
            if not any(here.is_relative_to(outer) for outer in found):
                found.append(here)
            stamps += _stamps(here)
        if "run.json" in files or len(here.relative_to(folder).parts) >= DEPTH:
            below.clear()
    return found, stamps


def _stamps(folder: Path) -> list[Stamp]:
    names = ("run.json", "study.json", "metrics.jsonl", "recorded.jsonl")
    paths = [*(folder / name for name in names), *sorted((folder / "analysis").glob("*.json"))]
    stamps = []
    for path in paths:
        try:
            seen = path.stat()
        except OSError:  # not there, or gone since it was listed
            continue
        stamps.append((str(path), seen.st_mtime_ns, seen.st_size))
    return stamps
