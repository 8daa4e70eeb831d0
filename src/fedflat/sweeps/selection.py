"""The choice between settings, by the mean score on the validation set over seeds; its heat map."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from fedflat.data.info import VALIDATION
from fedflat.errors import SettingError, choice
from fedflat.experiments.results.frame import method_columns
from fedflat.experiments.results.results import Result, Results
from fedflat.experiments.results.scenario import without_arguments
from fedflat.plot_style import COLUMN, STYLE, ShownFigure, pyplot


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


def cells(
    each: Sequence[Trial], family: str, x: str, y: str
) -> tuple[list[Any], list[Any], list[list[float]]]:
    """The values of both settings, and the best validation score for each pair of them, over all
    other settings; NaN where there is none."""
    found = axes(each, family)
    for name in (x, y):
        choice("heat map", "setting", name, list(found))
    across, up = _sorted(found[x]), _sorted(found[y])
    scores = [[math.nan] * len(across) for _ in up]
    for trial in each:
        if trial.family != family:
            continue
        row, column = up.index(trial.values.get(y)), across.index(trial.values.get(x))
        if trial.runs[0].headline.better(trial.score, scores[row][column]):
            scores[row][column] = trial.score
    return across, up, scores


def _sorted(values: list[Any]) -> list[Any]:
    numbers = all(isinstance(one, int | float) for one in values)
    return sorted(values) if numbers else values


def heat_map(
    each: Sequence[Trial], family: str, x: str | None = None, y: str | None = None
) -> ShownFigure:
    """Draw the validation score over two settings; without names, the first two that differ."""
    names = list(axes(each, family))
    if x is None or y is None:
        if len(names) < 2:
            raise SettingError(
                f"heat map: {family} has {len(names)} settings with several values, and a heat map "
                "shows two."
            )
        x, y = (
            x or next(one for one in names if one != y),
            y or next(one for one in names if one != x),
        )
        y = next(one for one in names if one != x) if x == y else y
    across, up, scores = cells(each, family, x, y)
    headline = next(one for one in each if one.family == family).runs[0].headline
    plt = pyplot()
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(
            figsize=(COLUMN, max(1.4, 0.7 + 0.3 * len(up))), layout="constrained"
        )
        shades = axis.imshow(scores, origin="lower", aspect="auto", cmap="viridis")
        axis.set(xlabel=x, ylabel=y, title=f"{family}: {headline.label}, validation")
        axis.set_xticks(range(len(across)), [str(one) for one in across])
        axis.set_yticks(range(len(up)), [str(one) for one in up])
        axis.spines[:].set_visible(False)
        for row, line in enumerate(scores):
            for column, score in enumerate(line):
                known = math.isfinite(score)
                light = known and shades.norm(score) > 0.6
                axis.text(
                    column,
                    row,
                    headline.format(score) if known else "X",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="black" if light or not known else "white",
                )
        plt.close(figure)
    return ShownFigure(figure)
