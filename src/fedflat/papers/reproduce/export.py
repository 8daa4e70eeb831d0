"""Write the table as Markdown, CSV, JSON and a figure. Each file says which commands made it."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from statistics import mean
from textwrap import fill, shorten
from typing import Any

from fedflat.files import unwritable, write_file
from fedflat.papers.reproduce.plan import TablePlan
from fedflat.papers.reproduce.verdict import (
    DEFAULT_SPREAD,
    TableLine,
    common_prefix,
    decimals,
    lines,
)
from fedflat.plot_style import COLORS, PAGE, STYLE
from fedflat.tasks.headline import ACCURACY


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


COLUMNS = (
    "cell",
    "method",
    "table",
    "paper",
    "paper_spread",
    "ours",
    "ours_spread",
    "difference",
    "seeds",
    "rounds",
    "stopped_after",
    "paper_rounds",
    "stretched",
    "evaluations",
    "verdict",
    "why",
    "seconds",
    "runs",
)


def write_tables(plan: TablePlan) -> list[str]:
    """Write all files. Returns a sentence for each problem."""
    shown = lines(plan)
    problems = dict.fromkeys(
        seed.problem for line in shown for seed in line.status.seeds if seed.problem
    )
    for name, text in (
        ("md", markdown(plan, shown)),
        ("csv", as_csv(plan, shown)),
        ("json", as_json(plan, shown)),
    ):
        # Names may contain lone surrogates.
        write_file(plan.folder / f"table.{name}", text.encode(errors="backslashreplace"))
    return [*problems, *draw(plan, shown)]


def line_values(line: TableLine) -> dict[str, Any]:
    """Return the values of one cell. None where there is no number."""
    one, entry = line.status, line.status.entry
    cell = entry.cell
    values = (
        cell.name,
        cell.arguments["method"],
        cell.table,
        "X" if cell.diverges else cell.reported,
        cell.spread,
        _number(one.value),
        _number(one.spread),
        _number(line.difference),
        [seed.seed for seed in one.seeds],
        one.round,
        entry.stop,
        cell.rounds,
        entry.stretched,
        line.evaluations,
        line.verdict.word,
        line.verdict.why,
        round(sum(seed.seconds for seed in one.seeds), 1),
        [seed.folder for seed in one.seeds],
    )
    values_by_name = dict(zip(COLUMNS, values, strict=True))
    return (
        values_by_name
        if line.headline == ACCURACY
        else {**values_by_name, "headline": line.headline.name}
    )


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else round(value, 4)


def as_json(plan: TablePlan, shown: Sequence[TableLine]) -> str:
    """Return the table as JSON, with the curve of each seed."""
    cells = [
        line_values(line) | {"by_seed": [asdict(seed) for seed in line.status.seeds]}
        for line in shown
    ]
    for seed in (seed for cell in cells for seed in cell["by_seed"]):
        seed["value"] = _number(seed["value"])
    content = {"title": plan.title, "source": plan.source, "made": plan.commands, "cells": cells}
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def as_csv(plan: TablePlan, shown: Sequence[TableLine]) -> str:
    """Return the table as CSV, one line per cell, after comments with the commands."""
    stream = io.StringIO()
    stream.writelines(f"# {text}\n" for text in _commands(plan))
    writer = csv.writer(stream, lineterminator="\n")
    with_headline = any(line.headline != ACCURACY for line in shown)
    writer.writerow([*COLUMNS, *(["headline"] if with_headline else [])])
    for line in shown:
        values = (
            line_values(line) | ({"headline": line.headline.name} if with_headline else {})
        ).values()
        writer.writerow(
            " ".join(map(str, v)) if isinstance(v, list) else "" if v is None else v for v in values
        )
    return stream.getvalue()


def markdown(plan: TablePlan, shown: Sequence[TableLine]) -> str:
    headlines = list(dict.fromkeys(line.headline for line in shown))
    numbers = (
        list(map(headlines[0].head, ["paper", "ours"]))
        if len(headlines) == 1
        else ["paper", "ours"]
    )
    heads = ["cell", "method", *numbers, "difference", "seeds", "rounds", "evaluations", "verdict"]
    rows = [heads, ["---", "---", *["---:"] * 6, "---"], *(_row(line) for line in shown)]
    if len(headlines) > 1:
        scores = ["score", "---", *(line.headline.column for line in shown)]
        rows = [[row[0], row[1], name, *row[2:]] for row, name in zip(rows, scores, strict=True)]
    body = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    notes = [f"`{line.label}`: {note}" for line in shown if (note := line.status.entry.cell.note)]
    head = common_prefix([line.status.entry.cell.name for line in shown])
    parts = [
        f"# {plan.title}",
        f"Cells `{head}*`. Numbers to compare with: {plan.source}.",
        body,
        _legend(shown),
    ]
    parts += ["\n".join(f"* {note}" for note in notes)] if notes else []
    parts += ["Made with:", "\n".join(f"* {text}" for text in _commands(plan))]
    return "\n\n".join(parts) + "\n"


def _row(line: TableLine) -> list[str]:
    one, cell = line.status, line.status.entry.cell
    of = f" of {cell.rounds:,}" if one.round < cell.rounds else ""
    stretched = " (stretched)" if one.entry.stretched else ""
    places = 2 if line.headline.share else decimals(cell)
    difference_text = "" if line.difference is None else f"{line.difference:+.{places}f}"
    seeds = ", ".join(str(seed.seed) for seed in one.seeds)
    return [
        line.label,
        f"`{cell.arguments['method']}`",
        line.paper,
        line.ours,
        difference_text,
        seeds,
        f"{one.round:,}{of}{stretched}",
        str(line.evaluations),
        str(line.verdict),
    ]


def _legend(shown: Sequence[TableLine]) -> str:
    # Stored tables are compared with this text: keep it.
    sentences = [
        "Ours: the mean of the evaluations in the last rounds that were run, as many as the "
        "paper's rule counts (their number is in the table), ± the standard deviation over seeds "
        "if there are several."
    ]
    if any(line.status.entry.cell.measure == "personal" for line in shown):
        alike = all(line.headline == ACCURACY for line in shown)
        sentences.append(
            f"Personal {'accuracies' if alike else 'scores'} are those of the best round."
        )
    if any(not line.status.entry.whole for line in shown):
        sentences.append(
            "A cut run is the paper's whole schedule stopped early: nothing is extrapolated, and "
            "only its order among the others can be judged."
        )
    without_spread = [
        line
        for line in shown
        if line.status.entry.cell.spread is None and line.status.entry.cell.reported
    ]
    if any(line.headline.share for line in without_spread):
        sentences.append(f"Where no spread is printed, ±{DEFAULT_SPREAD:g} point is assumed.")
    if any(not line.headline.share for line in without_spread):
        sentences.append(
            f"Where no spread is printed, ±{DEFAULT_SPREAD:g} % of the number is assumed."
        )
    return " ".join(sentences)


def _commands(plan: TablePlan) -> list[str]:
    """Return a sentence for each command that made the table."""
    sentences = []
    for made in plan.commands:
        commit = f", commit {made['commit']}" if made.get("commit") else ""
        where = f"{made.get('processor_name') or made['processor']}, {made['cores']} cores"
        sentences.append(
            f"`{made['command']}` ({made['when']}; fedflat {made['fedflat']}{commit}; "
            f"Python {made['python']}, torch {made['torch']}; {made['system']}, {where})"
        )
    return sentences
