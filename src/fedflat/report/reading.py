"""Run folders read with patience: what a run can do without, if it is missing or damaged, becomes a sentence."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedflat.report.analyses import Analysis, Unusable, checked
from fedflat.report.series import short
from fedflat.runs.book import Row, read_facts
from fedflat.runs.plan import runs_in
from fedflat.runs.results import Result
from fedflat.runs.state import Ledger


@dataclass(frozen=True)
class Read:
    """A run folder as far as it could be read."""

    folder: Path
    facts: dict[str, Any]
    result: Result
    watch: list[Row]
    analyses: list[Analysis]


def begun(folder: Path, problems: list[str]) -> list[Path]:
    """The folder itself, or the runs of its study that have begun."""
    found, planned = runs_in(folder)
    if len(found) < planned:
        problems.append(f"{planned - len(found)} of the {planned} runs in {folder} have not begun.")
    return found


def read(folder: Path, problems: list[str]) -> Read:
    """One run; what it can do without, if damaged, is left out and said."""
    facts = read_facts(folder)
    if not isinstance(facts["experiment"]["method"], str):
        raise TypeError(f"its method is {facts['experiment']['method']!r}, not a text")
    try:
        result = Result.read(folder)
        sound = [row for row in result.rows if _sound(row)]
        lost = _lines(folder / "metrics.jsonl") - len(sound)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        problems.append(f"{folder / 'metrics.jsonl'} is damaged ({_why(error)}). Its evaluations are left out.")
        result, sound, lost = _bare(facts), [], 0
    if lost:
        problems.append(f"{folder / 'metrics.jsonl'}: {lost} damaged lines are left out.")
    if not sound:
        problems.append(f"{folder} holds no evaluation yet.")
    watch = _watch(folder / "watch.jsonl", problems)
    return Read(folder, facts, replace(result, rows=sound), watch, _analyses(folder, problems))


def _bare(facts: dict[str, Any]) -> Result:
    exp = facts["experiment"]
    return Result(exp["method"], exp["seed"], facts["status"], exp["rounds"], exp["evaluate"]["last"], [], Ledger())


def _sound(row: Any) -> bool:
    """Whether a row names its round, and its scores are numbers."""
    if not isinstance(row, dict) or isinstance(row.get("round"), bool) or not isinstance(row.get("round"), int):
        return False
    return all(isinstance(row.get(name, 0.0), int | float) for name in ("loss", "accuracy", "personal", "clients"))


def _lines(path: Path) -> int:
    """The lines of a file; one that is just being written does not count."""
    text = path.read_text(errors="replace") if path.exists() else ""
    return text.count("\n")


def _watch(path: Path, problems: list[str]) -> list[Row]:
    rows, lost = [], 0
    for line in path.read_text(errors="replace").split("\n")[:-1] if path.exists() else []:
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if _sound(row):
            rows.append(row)
        else:
            lost += 1
    if lost:
        problems.append(f"{path}: {lost} damaged lines are left out.")
    return rows


def _analyses(folder: Path, problems: list[str]) -> list[Analysis]:
    found = []
    for path in sorted((folder / "analysis").glob("*.json")):
        if path.name.endswith(".part.json"):
            problems.append(f"{path} is an analysis under way or broken off; it will be shown when it is done.")
            continue
        try:
            found.append(_analysis(path, path.stat().st_mtime_ns))
        except Unusable as error:
            problems.append(f"{path}: {error} It is left out.")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            problems.append(f"{path} is damaged ({_why(error)}). Delete it and analyse again; it is left out.")
    return found


@lru_cache(maxsize=1024)
def _analysis(path: Path, changed: int) -> Analysis:
    """The analysis in a file; a page that is asked for news every second reads it once."""
    return checked(json.loads(path.read_text()))


def _why(error: Exception) -> str:
    return f"{str(error) or 'nothing'} is missing" if isinstance(error, KeyError) else str(error)


def accuracy_now(result: Result) -> float | None:
    """The last accuracy that was measured."""
    values = [row["accuracy"] for row in result.rows if "accuracy" in row]
    return short(values[-1]) if values else None
