"""A heat map of a sweep: the validation score over the values of two settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fedflat.errors import SettingError, choice
from fedflat.plot_style import COLUMN, STYLE, ShownFigure, pyplot
from fedflat.sweeps.selection import Trial, axes


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
