"""Curves of results: the mean over seeds, and a band from the least to the largest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING, Any

from fedflat.errors import SettingError
from fedflat.plot_style import (
    COLUMN,
    LEGEND,
    STYLE,
    ShownFigure,
    in_lines,
    legend,
    look,
    plain,
    pyplot,
)
from fedflat.tasks.headline import Headline

if TYPE_CHECKING:
    from fedflat.experiments.results.results import Result


def plot_curves(
    results: Sequence[Result], measure: str | None = None, width: float = COLUMN
) -> ShownFigure:
    """A figure with a curve for each method; sections have a panel each.

    ``measure`` is the name of a measurement; None: the headline. ``width`` is that of a panel in
    inches.
    """
    groups: dict[Any, list[Result]] = {}
    for result in results:
        groups.setdefault((result.scenario, result.headline), []).append(result)
    if not groups:
        raise SettingError("plot: there are no results.")
    looks = {name: place for place, name in enumerate(dict.fromkeys(r.method for r in results))}
    plots = pyplot()
    with plots.rc_context(STYLE):
        figure, axes = plots.subplots(
            ncols=len(groups),
            figsize=(width * len(groups), 2.6),
            layout="constrained",
            squeeze=False,
        )
        for axis, ((scenario, headline), own) in zip(axes.flat, groups.items(), strict=True):
            _panel(axis, own, headline, measure, looks)
            axis.set_title(plain(scenario.on) if len(groups) > 1 else "")
        legend(figure)
        shown = ShownFigure(figure)
        plots.close(figure)
    return shown


def _panel(
    axis: Any,
    results: Sequence[Result],
    headline: Headline,
    measure: str | None,
    looks: dict[str, int],
) -> None:
    name = measure or headline.name
    factor = headline.factor if name == headline.name else 1.0
    drawn = False
    for method in dict.fromkeys(result.method for result in results):
        curve = _curve([r for r in results if r.method == method], name)
        rounds = sorted(curve)
        drawn = drawn or bool(rounds)
        values = [[factor * value for value in curve[at]] for at in rounds]
        style = look(looks[method])
        axis.plot(rounds, [mean(one) for one in values], label=in_lines(method, LEGEND), **style)
        lows, highs = [min(one) for one in values], [max(one) for one in values]
        axis.fill_between(rounds, lows, highs, color=style["color"], alpha=0.15, linewidth=0)
    if not drawn:
        raise SettingError(
            f"plot: no evaluation has a measurement {name!r}. Known: {_known(results)}."
        )
    unit = f", {headline.unit}" if name == headline.name and headline.unit else ""
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.set(xlabel="round", ylabel=(headline.label if name == headline.name else name) + unit)


def _curve(results: Sequence[Result], name: str) -> dict[int, list[float]]:
    """The values of all seeds, by round."""
    found: dict[int, list[float]] = {}
    for result in results:
        for row in result.rows:
            value = row.get(name)
            if isinstance(value, int | float) and math.isfinite(value):
                found.setdefault(int(row["round"]), []).append(float(value))
    return found


def _known(results: Sequence[Result]) -> str:
    names = dict.fromkeys(
        name
        for result in results
        for row in result.rows[:1]
        for name, value in row.items()
        if isinstance(value, int | float) and name != "round"
    )
    return ", ".join(names)
