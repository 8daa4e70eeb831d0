"""Evaluations of runs as a data frame and as plots, and the settings in which runs differ."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from statistics import mean
from typing import TYPE_CHECKING, Any

from fedflat.errors import SettingError
from fedflat.experiments.run_folder.experiment_texts import ExperimentTexts
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
from fedflat.settings.groups import SETTINGS
from fedflat.tasks.headline import Headline

if TYPE_CHECKING:
    from fedflat.experiments.results.results import Result


OF_A_RUN = [one for one in SETTINGS if one.name not in ("cohorts", "orders")]


def settings(experiment: ExperimentTexts) -> dict[str, Any]:
    """The settings that a run has, by the names of their options.

    >>> saved = {"method": "fedavg()", "rounds": 5, "local": {"lr": 0.1}, "seed": 1}
    >>> settings(ExperimentTexts.from_json(saved))
    {'rounds': 5, 'lr': 0.1, 'seed': 1}
    """
    return {
        one.name: group[one.path[-1]]
        for one in OF_A_RUN
        if one.path[-1] in (group := experiment.group(one))
    }


def differences(runs: Sequence[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """For each run, a method and its settings, those settings in which it differs from other runs
    of its method, but for the seed.

    >>> differences([("a", {}), ("b", {"rounds": 1, "seed": 0}), ("b", {"rounds": 2, "seed": 1})])
    [{}, {'rounds': 1}, {'rounds': 2}]
    """
    values: dict[str, dict[str, set[str]]] = {}
    for method, own in runs:
        alike = values.setdefault(method, {})
        for one in OF_A_RUN:
            alike.setdefault(one.name, set()).add(json.dumps(own.get(one.name)))
    return [
        {
            name: value
            for name, value in own.items()
            if name != "seed" and len(values[method][name]) > 1
        }
        for method, own in runs
    ]


def arguments(method: str) -> dict[tuple[int, str], str]:
    """The arguments of the pieces of a method, by the place of the piece and the name.

    >>> arguments("fedsam(rho=warmup(0.1, 0.2, 9)) + swa(start=0.75)")
    {(0, 'rho'): 'warmup(0.1, 0.2, 9)', (1, 'start'): '0.75'}
    """
    found: dict[tuple[int, str], str] = {}
    for place, piece in enumerate(_pieces(ast.parse(method, mode="eval").body)):
        if not isinstance(piece, ast.Call):
            raise ValueError(f"{method} is not a sum of calls")
        found |= {
            (place, f"argument {i + 1}"): ast.unparse(one) for i, one in enumerate(piece.args)
        }
        found |= {(place, str(one.arg)): ast.unparse(one.value) for one in piece.keywords}
    return found


def _pieces(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_pieces(node.left), *_pieces(node.right)]
    return [node]


def method_columns(method: str) -> dict[str, Any]:
    """The arguments of a method as columns; an argument that two pieces have is ``place.name``.

    >>> method_columns("fedsam(rho=0.1) + swa(start=0.75)")
    {'rho': 0.1, 'start': 0.75}
    """
    try:
        found = arguments(method)
    except (SyntaxError, ValueError):
        return {}
    names = [name for _, name in found]
    columns: dict[str, Any] = {}
    for (place, name), text in found.items():
        try:
            value = ast.literal_eval(text)
        except ValueError:
            value = text
        columns[f"{place + 1}.{name}" if names.count(name) > 1 else name] = value
    return columns


def data_frame(results: Iterable[Result]) -> Any:
    """Every evaluation of every run as a row: see `Results.frame`."""
    try:
        pandas: Any = import_module("pandas")
    except ImportError:
        raise SettingError(
            "frame() makes a pandas DataFrame, and pandas is not installed here. Install it "
            "(pip install pandas), or take the evaluations as a list of dicts: result.rows."
        ) from None
    return pandas.DataFrame(
        [
            {
                "method": one.method,
                "seed": one.seed,
                **one.settings,
                **method_columns(one.method),
                **flat_row(row),
            }
            for one in results
            for row in one.rows
        ]
    )


def flat_row(row: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """A row with names such as ``models.server.accuracy`` for what lies deeper."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        flat |= (
            flat_row(value, f"{before}{name}.")
            if isinstance(value, Mapping)
            else {f"{before}{name}": value}
        )
    return flat


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
