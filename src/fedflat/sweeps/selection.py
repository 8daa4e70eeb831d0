"""The choice between settings, by the mean score on the validation set over seeds."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from fedflat.data.info import VALIDATION
from fedflat.experiments.results.method_labels import without_arguments
from fedflat.experiments.results.results import Result, Results
from fedflat.experiments.results.run_settings import method_columns


@dataclass(frozen=True)
class Trial:
    """One setting of a method, with its runs: one for each seed."""

    method: str
    """The text of the method."""
    values: dict[str, Any]
    """Its arguments and settings, by name."""
    runs: Results
    score: float
    """The mean score on the validation set over seeds; NaN if a run diverged, was
    pruned or has not ended."""

    @property
    def family(self) -> str:
        """The method without its arguments: the choice is made within it."""
        return without_arguments(self.method)


def trials(results: Sequence[Result], pruned: Collection[Path] = ()) -> list[Trial]:
    """The runs of a sweep, by their settings; those that were ``pruned`` have no score."""
    found: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        own = {name: value for name, value in result.settings.items() if name != "seed"}
        found.setdefault((result.method, repr(own)), []).append(result)
    return [
        Trial(
            method,
            {k: v for k, v in runs[0].settings.items() if k != "seed"} | method_columns(method),
            Results(runs),
            math.nan if runs[0].folder in pruned else mean(map(_score, runs)),
        )
        for (method, _), runs in found.items()
    ]


def _score(run: Result) -> float:
    if run.diverged or run.status == "running":
        return math.nan
    return run.final(f"tests.{VALIDATION}.{run.headline.name}")


def best(each: Sequence[Trial]) -> dict[str, Trial]:
    """The trial with the best validation score of each method; the first if none has a score."""
    found: dict[str, Trial] = {}
    for trial in each:
        family = trial.family
        headline = trial.runs[0].headline
        if family not in found or headline.better(trial.score, found[family].score):
            found[family] = trial
    return found


def axes(each: Sequence[Trial], family: str) -> dict[str, list[Any]]:
    """The settings that differ between the trials of a method, with their values."""
    own = [trial.values for trial in each if trial.family == family]
    names = dict.fromkeys(name for one in own for name in one)
    values = {
        name: list({repr(one.get(name)): one.get(name) for one in own}.values()) for name in names
    }
    return {name: found for name, found in values.items() if len(found) > 1}
