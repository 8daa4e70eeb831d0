"""The runs that can be shown: whatever goes wrong with one of them becomes a sentence, and the
others are shown.

This is the one fence around a run. Files are written by machines that lose power, by other versions
and by hand; a page of a hundred runs must not depend on each of them being sound. So every run is
read and shown by itself first, and only one that gets through joins the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from fedflat.errors import FedflatError
from fedflat.experiments.run_folder.study_file import read_target, runs_in
from fedflat.report.read import Read, read

WORDS = 200
"""How much is told of an error that nobody foresaw, in characters."""
T = TypeVar("T")


def gather(folders: Sequence[Path], show: Callable[[Read], Any]) -> tuple[list[Read], list[str]]:
    """The runs in these folders that ``show`` can show, those of a study among them; a sentence
    about each problem."""
    problems: list[str] = []

    def begun(folder: Path, said: list[str]) -> dict[Path, float | None]:
        return dict.fromkeys(runs_in(folder, said.append), read_target(folder))

    def shown(folder: Path, said: list[str]) -> Read:
        run = replace(read(folder, said), target=targets[folder])
        show(run)
        return run

    targets: dict[Path, float | None] = {}
    for given in folders:
        for place, target in (_fenced(begun, Path(given), problems) or {}).items():
            targets.setdefault(place, target)
    runs = [_fenced(shown, place, problems) for place in targets]
    return [run for run in runs if run is not None], problems


def _fenced(work: Callable[[Path, list[str]], T], folder: Path, problems: list[str]) -> T | None:
    """What ``work`` finds in a folder; None if it could not, and then a sentence says why."""
    try:
        return work(folder, problems)
    except FedflatError as error:
        problems.append(f"{_with_place(str(error), folder)} It is left out.")
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        shortened = why if len(why) <= WORDS else f"{why[:WORDS]}..."
        problems.append(f"{folder} cannot be shown ({shortened}). It is left out.")
    return None


def _with_place(said: str, folder: Path) -> str:
    return said if str(folder) in said else f"{folder}: {said}"
