"""Run folders read with patience: what a run can do without, if it is missing or damaged, becomes a
sentence."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedflat.analysis.analysis_store import read_analysis
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.groups import GROUPS, Grouped, read_groups
from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.run_folder.record import read_facts, read_rows
from fedflat.files import Damaged
from fedflat.report.analyses import Analysis, Unusable, checked


@dataclass(frozen=True)
class Read:
    """A run folder."""

    folder: Path
    facts: dict[str, Any]
    result: Result
    recorded: list[Row]
    analyses: list[Analysis]
    groups: Grouped | None = None
    """Who is with whom, where clients are in groups."""
    target: float | None = None
    """The target of the study that the run belongs to."""


def read(folder: Path, problems: list[str]) -> Read:
    """One run; what it can do without, if damaged, is left out and said."""
    facts = read_facts(folder)
    rows, recorded = (read_rows(folder, name, facts) for name in ("metrics", "recorded"))
    if not rows:
        problems.append(f"{folder} holds no evaluation yet.")
    analyses, groups = (
        _analyses(folder, facts["identity"], problems),
        _groups(folder, facts["identity"], problems),
    )
    return Read(folder, facts, Result.telling(facts, rows), recorded, analyses, groups)


def _groups(folder: Path, identity: str, problems: list[str]) -> Grouped | None:
    try:
        return read_groups(folder, identity)
    except Damaged as error:
        problems.append(f"{folder / GROUPS} is damaged ({error}): groups are not shown.")
        return None


def _analyses(folder: Path, identity: str, problems: list[str]) -> list[Analysis]:
    found = []
    for path in _files(folder / "analysis", problems):
        if path.name.endswith(".part.json"):
            problems.append(
                f"{path} is an analysis under way or broken off; it will be shown when it is done."
            )
            continue
        try:
            found.append(_analysis(path, path.lstat().st_mtime_ns, identity))
        except Unusable as error:
            problems.append(f"{path}: {error} It is left out.")
        except (Damaged, OSError) as error:
            problems.append(
                f"{path} is damaged ({error}). Delete it and analyse again; it is left out."
            )
    return found


def _files(folder: Path, problems: list[str]) -> list[Path]:
    try:
        if folder.is_symlink():
            raise OSError(errno.ELOOP, "it is a link, and links are not followed")
        return sorted(path for path in folder.iterdir() if path.suffix == ".json")
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(f"{folder} cannot be read ({error.strerror}): no analysis is shown.")
        return []


@lru_cache(maxsize=1024)
def _analysis(path: Path, changed: int, identity: str) -> Analysis:
    """The analysis in a file; a page that is asked for news every second reads it once."""
    return checked(read_analysis(path, identity))
