"""Which runs a folder stands for: itself, or those that its ``study.json`` names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedflat.errors import RunError


def read_plan(folder: Path) -> dict[str, Any]:
    """What a study set out to run: its "runs", each with "folder" and "experiment", "how", and fedflat's version."""
    path = folder / "study.json"
    if not path.exists():
        raise RunError(f"{folder} holds neither a run (run.json) nor a study (study.json). Check the path.")
    try:
        plan: dict[str, Any] = json.loads(path.read_text())
        for entry in plan["runs"]:
            folder / entry["folder"], entry["experiment"]
        plan["fedflat"], plan["how"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is damaged ({error}). Name its runs one by one, or start the study anew.") from None
    return plan


def runs_in(folder: Path) -> tuple[list[Path], int]:
    """The runs in a folder that have begun, and how many there shall be."""
    if (folder / "run.json").exists():
        return [folder], 1
    planned = [folder / entry["folder"] for entry in read_plan(folder)["runs"]]
    return [run for run in planned if (run / "run.json").exists()], len(planned)
