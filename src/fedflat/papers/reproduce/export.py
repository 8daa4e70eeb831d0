"""The table as files: Markdown for people, CSV and JSON for programs. Each says how it was made."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fedflat.files import write_file
from fedflat.papers.reproduce.figure import draw
from fedflat.papers.reproduce.plan import TablePlan
from fedflat.papers.reproduce.summary import TableLine, common, lines
from fedflat.papers.reproduce.verdict import UNSAID, decimals
from fedflat.tasks.headline import ACCURACY

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
    """Write all files anew; give a sentence for each that could not be, and for each run that
    cannot be read."""
    shown = lines(plan)
    unread = dict.fromkeys(
        seed.problem for line in shown for seed in line.standing.seeds if seed.problem
    )
    for name, text in (
        ("md", markdown(plan, shown)),
        ("csv", as_csv(plan, shown)),
        ("json", as_json(plan, shown)),
    ):
        write_file(
            plan.folder / f"table.{name}", text.encode(errors="backslashreplace")
        )  # halves of letters in names
    return [*unread, *draw(plan, shown)]


def facts(line: TableLine) -> dict[str, Any]:
    """One cell for programs; None where there is no number."""
    one, entry = line.standing, line.standing.entry
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
    found = dict(zip(COLUMNS, values, strict=True))
    return found if line.headline == ACCURACY else {**found, "headline": line.headline.name}


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else round(value, 4)


def as_json(plan: TablePlan, shown: Sequence[TableLine]) -> str:
    """Everything, with each seed's curve."""
    cells = [
        facts(line) | {"by_seed": [asdict(seed) for seed in line.standing.seeds]} for line in shown
    ]
    for seed in (seed for cell in cells for seed in cell["by_seed"]):
        seed["value"] = _number(seed["value"])
    whole = {"title": plan.title, "source": plan.source, "made": plan.commands, "cells": cells}
    return json.dumps(whole, indent=1, allow_nan=False) + "\n"


def as_csv(plan: TablePlan, shown: Sequence[TableLine]) -> str:
    """One line a cell, after comments that say how it was made."""
    stream = io.StringIO()
    stream.writelines(f"# {said}\n" for said in _made(plan))
    writer = csv.writer(stream, lineterminator="\n")
    judged = any(line.headline != ACCURACY for line in shown)
    writer.writerow([*COLUMNS, *(["headline"] if judged else [])])
    for line in shown:
        values = (facts(line) | ({"headline": line.headline.name} if judged else {})).values()
        writer.writerow(
            " ".join(map(str, v)) if isinstance(v, list) else "" if v is None else v for v in values
        )
    return stream.getvalue()


def markdown(plan: TablePlan, shown: Sequence[TableLine]) -> str:
    """The table, and what must be known to read it."""
    judged = list(dict.fromkeys(line.headline for line in shown))
    numbers = (
        list(map(judged[0].head, ["paper", "ours"])) if len(judged) == 1 else ["paper", "ours"]
    )
    heads = ["cell", "method", *numbers, "difference", "seeds", "rounds", "evaluations", "verdict"]
    rows = [heads, ["---", "---", *["---:"] * 6, "---"], *(_row(line) for line in shown)]
    if len(judged) > 1:  # whose numbers are not alike
        named = ["score", "---", *(line.headline.column for line in shown)]
        rows = [[row[0], row[1], name, *row[2:]] for row, name in zip(rows, named, strict=True)]
    body = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    notes = [f"`{line.label}`: {note}" for line in shown if (note := line.standing.entry.cell.note)]
    head = common([line.standing.entry.cell.name for line in shown])
    parts = [
        f"# {plan.title}",
        f"Cells `{head}*`. Numbers to compare with: {plan.source}.",
        body,
        _reading(shown),
    ]
    parts += ["\n".join(f"* {note}" for note in notes)] if notes else []
    parts += ["Made with:", "\n".join(f"* {said}" for said in _made(plan))]
    return "\n\n".join(parts) + "\n"


def _row(line: TableLine) -> list[str]:
    one, cell = line.standing, line.standing.entry.cell
    of = f" of {cell.rounds:,}" if one.round < cell.rounds else ""
    stretched = " (stretched)" if one.entry.stretched else ""
    places = 2 if line.headline.share else decimals(cell)
    apart = "" if line.difference is None else f"{line.difference:+.{places}f}"
    seeds = ", ".join(str(seed.seed) for seed in one.seeds)
    return [
        line.label,
        f"`{cell.arguments['method']}`",
        line.paper,
        line.ours,
        apart,
        seeds,
        f"{one.round:,}{of}{stretched}",
        str(line.evaluations),
        str(line.verdict),
    ]


def _reading(shown: Sequence[TableLine]) -> str:
    said = [
        "Ours: the mean of the evaluations in the last rounds that were run, as many as the paper's rule counts (their "
        "number is in the table), ± the standard deviation over seeds if there are several."
    ]
    if any(line.standing.entry.cell.measure == "personal" for line in shown):
        alike = all(line.headline == ACCURACY for line in shown)
        said.append(f"Personal {'accuracies' if alike else 'scores'} are those of the best round.")
    if any(not line.standing.entry.whole for line in shown):
        said.append(
            "A cut run is the paper's whole schedule stopped early: nothing is extrapolated, and only its order among "
            "the others can be judged."
        )
    unsaid = [
        line
        for line in shown
        if line.standing.entry.cell.spread is None and line.standing.entry.cell.reported
    ]
    if any(line.headline.share for line in unsaid):
        said.append(f"Where no spread is printed, ±{UNSAID:g} point is taken for it.")
    if any(not line.headline.share for line in unsaid):
        said.append(f"Where no spread is printed, ±{UNSAID:g} % of the number is taken for it.")
    return " ".join(said)


def _made(plan: TablePlan) -> list[str]:
    """How, one sentence for each command."""
    said = []
    for made in plan.commands:
        commit = f", commit {made['commit']}" if made.get("commit") else ""
        where = f"{made.get('processor_name') or made['processor']}, {made['cores']} cores"
        said.append(
            f"`{made['command']}` ({made['when']}; fedflat {made['fedflat']}{commit}; Python {made['python']}, "
            f"torch {made['torch']}; {made['system']}, {where})"
        )
    return said
