"""The headline over rounds, with the paper's final values as lines, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from textwrap import fill, shorten
from typing import Any

from fedflat.files import unwritable
from fedflat.papers.reproduce.plan import TablePlan
from fedflat.papers.reproduce.summary import TableLine
from fedflat.plot_style import COLORS, PAGE, STYLE


def names(shown: Sequence[TableLine]) -> dict[str, list[TableLine]]:
    """Return the names of the figures, such as `accuracy`, and the cells of each.

    There is one figure per headline score. Other measures have no curve.
    """
    shown = [
        line
        for line in shown
        if not (line.status.entry.cell.needs_target or line.status.entry.cell.needs_curvature)
    ]
    headlines = list(dict.fromkeys(line.headline for line in shown))
    file_names = [
        one.name + (f"-{place + 1}" if place else "") for place, one in enumerate(headlines)
    ]
    return {
        name: [line for line in shown if line.headline == one]
        for name, one in zip(file_names, headlines, strict=True)
    }


def draw(plan: TablePlan, shown: Sequence[TableLine]) -> list[str]:
    """Write each figure as PNG and SVG. Returns a sentence if that is not possible."""
    try:
        import matplotlib
    except ImportError:
        return [
            "No figure: matplotlib is not installed. "
            "Install it with `pip install 'fedflat[figures]'`."
        ]
    if not any(seed.curve for line in shown for seed in line.status.seeds):
        return []
    matplotlib.use("agg")
    for name, group in names(shown).items():
        _draw(plan, group, name)
    return []


def _draw(plan: TablePlan, shown: Sequence[TableLine], name: str) -> None:
    from matplotlib import pyplot

    groups: dict[tuple[Any, ...], list[TableLine]] = {}
    for line in shown:
        cell = line.status.entry.cell
        groups.setdefault((cell.arguments["on"], cell.network), []).append(line)
    with pyplot.rc_context(STYLE):  # type: ignore[arg-type]
        figure, axes = pyplot.subplots(
            len(groups), 1, figsize=(PAGE, 2.9 * len(groups)), layout="constrained", squeeze=False
        )
        for axis, ((on, _), group) in zip(axes[:, 0], groups.items(), strict=True):
            models = dict.fromkeys(line.status.entry.cell.arguments.get("model") for line in group)
            _panel(axis, ", ".join([on, *filter(None, models)]), group)
        figure.supxlabel(_provenance(plan), fontsize=5, x=0.01, ha="left")
        try:
            figure.savefig(plan.folder / f"{name}.png")
            figure.savefig(plan.folder / f"{name}.svg", metadata={"Date": None})
        except OSError as error:
            raise unwritable(plan.folder / f"{name}.png", error) from error
        finally:
            pyplot.close(figure)


def _provenance(plan: TablePlan) -> str:
    """Return version, commits and last command in one line."""
    last, many = plan.commands[-1], len(plan.commands)
    commits = ", ".join(
        dict.fromkeys(made["commit"] for made in plan.commands if made.get("commit"))
    )
    place = f", last of {many} commands" if many > 1 else ""
    return shorten(
        f"fedflat {last['fedflat']} {commits}{place}: {last['command']}", 150, placeholder=" ..."
    )


def _panel(axis: Any, title: str, group: Sequence[TableLine]) -> None:
    end = max(line.status.entry.stop for line in group)
    values_shown: list[float] = []
    for place, line in enumerate(group):
        colour, cell = COLORS[place % len(COLORS)], line.status.entry.cell
        rounds, values = _mean_curve(line)
        axis.plot(
            rounds, values, color=colour, label=f"{line.label} (paper {line.paper})", linewidth=0.9
        )
        values_shown += [
            value for round, value in zip(rounds, values, strict=True) if round >= end / 10
        ]
        if cell.reported is not None:
            values_shown.append(cell.reported)
            axis.axhline(cell.reported, color=colour, linestyle="--", linewidth=0.8)
            if cell.spread:
                axis.axhspan(
                    cell.reported - cell.spread,
                    cell.reported + cell.spread,
                    color=colour,
                    alpha=0.12,
                    lw=0,
                )
    whole = max(line.status.entry.cell.rounds for line in group)
    cut = f", cut after {end:,} of {whole:,} rounds" if end < whole else ""
    axis.set_title(fill(f"{title}{cut}", 95), loc="left")
    axis.set(xlabel="round", ylabel=group[0].headline.column, xlim=(0, end))
    # The first steep rise may be outside of the picture.
    if values_shown and max(values_shown) > min(values_shown):
        margin = (max(values_shown) - min(values_shown)) / 20
        axis.set_ylim(min(values_shown) - margin, max(values_shown) + margin)
    beside = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}  # curves may be anywhere
    axis.legend(**beside, title="dashed: the final value reported", title_fontsize=7)


def _mean_curve(line: TableLine) -> tuple[list[int], list[float]]:
    """Return the mean over seeds, in the rounds that all seeds have evaluated."""
    curves = [dict(seed.curve) for seed in line.status.seeds]
    rounds = sorted(set.intersection(*(set(curve) for curve in curves)))
    return rounds, [mean(curve[t] for curve in curves) for t in rounds]
