"""``study.json``: the runs of a study, and which runs a folder holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedflat.core.json_schema import damaged
from fedflat.data.files.paths import data_place
from fedflat.errors import RunError, SettingError
from fedflat.experiments.run_folder.experiment_texts import ExperimentTexts
from fedflat.experiments.run_folder.record import parse_known, read_content, read_record
from fedflat.experiments.run_folder.schema import STUDY, verified, write_signed
from fedflat.files import Damaged
from fedflat.version import __version__

FILE = "study.json"
_ADVICE = "Name its runs one by one, or start the study anew."


@dataclass(frozen=True)
class PlannedRun:
    folder: str
    """Its folder, within that of the study."""
    experiment: ExperimentTexts
    tried: int = 1
    """How many settings of its method a sweep tries; 1 without a sweep."""

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> PlannedRun:
        """Read an entry of study.json."""
        texts = ExperimentTexts.from_json(saved["experiment"])
        return cls(saved["folder"], texts, saved.get("tried", 1))

    def as_json(self) -> dict[str, Any]:
        """Its entry in study.json."""
        saved = {"folder": self.folder, "experiment": self.experiment.as_json()}
        return saved if self.tried == 1 else {**saved, "tried": self.tried}


@dataclass(frozen=True)
class StudyPlan:
    """The content of study.json: the runs of a study."""

    runs: tuple[PlannedRun, ...]
    execution: Mapping[str, Any]
    """The fields of `ExecutionSettings`."""
    place: str | None
    """The folder in which the data were found."""
    target: float | None = None
    """The score that the methods should reach, if there is one."""
    version: str = __version__
    search: Mapping[str, Any] | None = None
    """What a sweep searches, if it adds runs as it goes on."""

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> StudyPlan:
        """Read a JSON object that matches the schema `STUDY`."""
        runs = map(PlannedRun.from_json, saved["runs"])
        return cls(
            tuple(runs),
            saved["how"],
            saved["place"],
            saved.get("target"),
            saved["fedflat"],
            saved.get("search"),
        )

    def as_json(self) -> dict[str, Any]:
        """The content of study.json without its digest."""
        saved = {
            "fedflat": self.version,
            "runs": [run.as_json() for run in self.runs],
            "how": dict(self.execution),
            "place": self.place,
        }
        others = {"target": self.target, "search": self.search}
        return saved | {name: value for name, value in others.items() if value is not None}

    def write(self, folder: Path) -> None:
        write_signed(folder / FILE, self.as_json(), indent=2)


def new_plan(
    runs: Sequence[PlannedRun], execution: Mapping[str, Any], target: float | None = None
) -> StudyPlan:
    return StudyPlan(tuple(runs), execution, data_place(), target)


def write_target(folder: Path, target: float) -> None:
    """Change the target of the study in a folder."""
    replace(read_plan(folder), target=target).write(folder)


def read_target(folder: Path) -> float | None:
    """The target of the study in a folder; None without one, and for the folder of a single run."""
    return None if is_run(folder) else read_plan(folder).target


def read_plan(folder: Path) -> StudyPlan:
    """Read study.json; an error with advice if it was changed."""
    path = folder / FILE
    if not os.path.lexists(path):
        raise RunError(
            f"{folder} holds neither a run (run.json) nor a study ({FILE}). Check the path."
        )
    return _plan(path, read_content(path, _ADVICE))


@lru_cache(maxsize=16)
def _plan(path: Path, content: bytes) -> StudyPlan:
    saved = parse_known(path, content, STUDY, _ADVICE)
    try:
        for run in saved["runs"]:
            check_inside(path.parent, run["folder"])
        return StudyPlan.from_json(verified(saved))
    except (Damaged, SettingError) as error:
        raise damaged(path, error, _ADVICE) from None


def check_inside(folder: Path, name: str) -> None:
    """`Damaged` if a run would not be inside its study, be it by a link."""
    try:
        inside = not Path(name).is_absolute() and (folder / name).resolve().is_relative_to(
            folder.resolve()
        )
    except (OSError, ValueError, RuntimeError):
        inside = False
    if not inside or ".." in Path(name).parts:
        raise Damaged(f"its run {name[:100]!r} is not inside {folder}")


def is_run(folder: Path) -> bool:
    """Whether a run was begun there."""
    return os.path.lexists(folder / "run.json")


def runs_in(folder: Path, print_line: Callable[[str], object] = lambda text: None) -> list[Path]:
    """The folder itself if it is a run, or the runs of its study that have begun.

    ``print_line`` is called with a sentence about the others.
    """
    if is_run(folder):
        return [folder]
    planned = read_plan(folder).runs
    begun = [run for run in planned if is_run(folder / run.folder)]
    if len(begun) < len(planned):
        print_line(
            f"{len(planned) - len(begun)} of the {len(planned)} runs in {folder} have not begun."
        )
    found = []
    for run in begun:
        place = folder / run.folder
        if _is_another(place, run.experiment):
            print_line(f"{_another(place)} It is left out.")
        else:
            found.append(place)
    return found


def check_planned(run: Path, planned: ExperimentTexts) -> None:
    """Refuse a folder that holds another run than its study names."""
    if _is_another(run, planned):
        raise RunError(
            f"{_another(run)} Put back the study's own, or move the folder away to run it anew."
        )


def _is_another(run: Path, planned: ExperimentTexts) -> bool:
    try:
        return not read_record(run).experiment.same_settings(planned)
    except RunError:  # reported when the run is read
        return False


def _another(run: Path) -> str:
    return f"{run} holds another run than the one its study names: their settings differ."
