"""Load run folders for the report. What is wrong with one of them becomes a sentence.

Files are written by machines that lose power, by other versions and by hand. A page of a hundred
runs must not depend on each of them being intact. A run that cannot be read is left out. A part
that the page does not need, such as an analysis, is left out by itself.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from fedflat.analysis.analysis_store import read_analysis
from fedflat.errors import FedflatError
from fedflat.experiments.results.results import Result
from fedflat.experiments.run_folder.groups import GROUPS, Grouped, read_groups
from fedflat.experiments.run_folder.jsonl_log import Row
from fedflat.experiments.run_folder.record import RunRecord, read_record, read_rows
from fedflat.experiments.run_folder.study_file import read_target, runs_in
from fedflat.files import Damaged
from fedflat.report.analyses import ShownAnalysis, Unusable, checked

MAX_MESSAGE = 200
"""Most characters of an unexpected error."""
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class ReportRun:
    """The content of a run folder that the report uses."""

    folder: Path
    record: RunRecord
    result: Result
    recorded: list[Row]
    analyses: list[ShownAnalysis]
    groups: Grouped | None = None
    """The groups of clients, if the topology has any."""
    target: float | None = None
    """The target of the study that the run belongs to."""


def load_runs(folders: Sequence[Path]) -> tuple[list[ReportRun], list[str]]:
    """Load the runs in these run and study folders; also return a sentence for each problem."""
    problems: list[str] = []
    targets: dict[Path, float | None] = {}

    def started(folder: Path) -> dict[Path, float | None]:
        return dict.fromkeys(runs_in(folder, problems.append), read_target(folder))

    def load(folder: Path) -> ReportRun:
        return replace(read(folder, problems), target=targets[folder])

    for folder in map(Path, folders):
        for run, target in (or_sentence(started, folder, folder, problems) or {}).items():
            targets.setdefault(run, target)
    runs = [or_sentence(load, folder, folder, problems) for folder in targets]
    return [run for run in runs if run is not None], problems


def or_sentence(work: Callable[[T], R], on: T, folder: Path, problems: list[str]) -> R | None:
    """Return ``work(on)``. If it fails, return None and add a sentence about the folder."""
    try:
        return work(on)
    except FedflatError as error:
        message = str(error)
        where = "" if str(folder) in message else f"{folder}: "
        problems.append(f"{where}{message} It is left out.")
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        shortened = why if len(why) <= MAX_MESSAGE else f"{why[:MAX_MESSAGE]}..."
        problems.append(f"{folder} cannot be shown ({shortened}). It is left out.")
    return None


def read(folder: Path, problems: list[str]) -> ReportRun:
    """Read one run. Damaged parts that the page does not need become sentences in `problems`."""
    record = read_record(folder)
    rows, recorded = (read_rows(folder, name, record) for name in ("metrics", "recorded"))
    if not rows:
        problems.append(f"{folder} holds no evaluation yet.")
    identity = record.identity
    analyses, groups = _analyses(folder, identity, problems), _groups(folder, identity, problems)
    return ReportRun(folder, record, Result.from_record(record, rows), recorded, analyses, groups)


def _groups(folder: Path, identity: str, problems: list[str]) -> Grouped | None:
    try:
        return read_groups(folder, identity)
    except Damaged as error:
        problems.append(f"{folder / GROUPS} is damaged ({error}): groups are not shown.")
        return None


def _analyses(folder: Path, identity: str, problems: list[str]) -> list[ShownAnalysis]:
    found = []
    for path in _files(folder / "analysis", problems):
        if path.name.endswith(".part.json"):
            problems.append(f"{path} is an unfinished analysis. It is shown when it is finished.")
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
def _analysis(path: Path, changed: int, identity: str) -> ShownAnalysis:
    """Return the analysis in a file. The dashboard reads a file again only if it has changed."""
    return checked(read_analysis(path, identity))
