"""``run.json``: the texts that made a run, and what it came to, under a digest that all else in the
folder builds on.

identity   the digest of what made the run: version, experiment, data, module, machine
status     "running", "done" or "diverged"
how        where the computing is done; it may change as the run goes on
end        how long the diaries are and which models there are, with digests, once the run has ended
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from fedflat.core.json_schema import Schema, check, damaged, read_checked
from fedflat.errors import RunError, SettingError, printable
from fedflat.experiments.run_folder.checkpoints import Store
from fedflat.experiments.run_folder.jsonl_log import LOGS, JsonlLog, LogPosition, Row
from fedflat.experiments.run_folder.schema import CHECKPOINT, OF_ANY_VERSION, RUN
from fedflat.experiments.run_folder.signed import sign
from fedflat.files import Damaged
from fedflat.tasks.headline import Headline
from fedflat.version import __version__

Facts = dict[str, Any]
_MADE = ("fedflat", "made", "machine", "experiment", "origin")
"""What made the run, and never changes."""
_ADVICE = "The run cannot be continued; start it anew."


def new_facts(experiment: dict[str, Any], config: dict[str, Any], origin: dict[str, Any]) -> Facts:
    """The facts of a run that begins."""
    facts = {
        "fedflat": __version__,
        "status": "running",
        "experiment": experiment,
        "origin": origin,
        "how": config,
        "made": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": machine(),
    }
    return {**facts, "identity": identity(facts)}


def identity(facts: Facts) -> str:
    """The digest of what made the run."""
    return sign({name: facts[name] for name in _MADE})


def ended(facts: Facts, status: str, end: dict[str, Any]) -> Facts:
    """The facts of the same run when it has come to its end."""
    return {
        **facts,
        "status": status,
        "end": {**end, "digest": sign([facts["identity"], status, end])},
    }


def read_known(path: Path, schema: Schema, advice: str, look: Callable[[Facts], object]) -> Facts:
    """What a JSON file in a format that this version knows says; ``look`` raises what its schema
    cannot tell."""
    found: Facts = read_checked(path, OF_ANY_VERSION, advice)
    known_format(path.parent, found["fedflat"])
    try:
        check(found, schema)
        look(found)
    except (Damaged, SettingError) as error:
        raise damaged(path, error, advice) from None
    return found


def read_facts(folder: Path) -> Facts:
    """What run.json says, if it is as it was written."""
    path = folder / "run.json"
    if not os.path.lexists(path):
        raise RunError(f"{folder} is not a run folder: it has no run.json.")
    facts = read_known(path, RUN, _ADVICE, headline_of)
    if identity(facts) != facts["identity"]:
        raise damaged(
            path,
            "its settings are not those that the run was begun with",
            "Put them back, or start a new run with the new ones.",
        )
    end = dict(facts.get("end") or {"digest": None})
    if (facts["status"] == "running") != (end["digest"] is None):
        raise damaged(
            path, f"its status is {facts['status']!r}, but its end says otherwise", _ADVICE
        )
    if end.pop("digest") not in (None, sign([facts["identity"], facts["status"], end])):
        raise damaged(path, "its end is not the one that was written", _ADVICE)
    return facts


def headline_of(facts: Facts) -> Headline:
    """The score that the run is judged by."""
    return Headline.from_json(facts["experiment"].get("headline"))


def read_rows(folder: Path, name: str = "metrics", facts: Facts | None = None) -> list[Row]:
    """The evaluations of a run, or what was seen in it; a last line that was cut short is left
    out."""
    facts = facts or read_facts(folder)
    if "end" in facts:
        end = facts["end"][name]
        return _open_log(folder, name, facts).read((end["lines"], end["chain"]))
    past = _checkpointed(
        folder, name, facts
    )  # before the rows are read: the run may go on meanwhile
    return _open_log(folder, name, facts).read(past=past)


def _checkpointed(folder: Path, name: str, facts: Facts) -> LogPosition | None:
    """Where a diary was when the newest checkpoint of the run was made; None if none can be
    read."""
    found = Store(folder / "checkpoint").newest()
    try:
        check(found, {**CHECKPOINT, "*": object})
    except Damaged:  # or None; whoever goes on from it will say so
        return None
    return LogPosition(**found[name]) if found and found["run"] == facts["identity"] else None


def open_logs(folder: Path, facts: Facts) -> dict[str, JsonlLog]:
    """The diaries of a run, to be written."""
    return {name: _open_log(folder, name, facts) for name in LOGS}


def _open_log(folder: Path, name: str, facts: Facts) -> JsonlLog:
    return JsonlLog(
        folder, name, facts["identity"], [headline_of(facts).name] if name == "metrics" else []
    )


def known_format(folder: Path, version: str) -> None:
    """Refuse to read what a version with other folders has written; the first two numbers tell."""
    if version.split(".")[:2] != __version__.split(".")[:2]:
        raise RunError(
            f"{folder} was made by fedflat {printable(version[:20])}, this is {__version__}, which keeps runs "
            "otherwise and may compute other numbers. Use that version of fedflat to go on with it, or start anew."
        )


def same_version(folder: Path, version: str) -> None:
    """Refuse to go on with what another version began."""
    if version != __version__:
        raise RunError(
            f"{folder} was made by fedflat {printable(version[:20])}, this is {__version__}, and may compute other "
            "numbers. Use that version of fedflat to go on with it, or start anew."
        )


def machine() -> dict[str, Any]:
    """What the numbers were computed on."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }
