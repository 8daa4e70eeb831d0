"""Evaluations over seeds as curves: the mean with the least and the largest, thinned to what a
screen can show."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedflat.analysis.shown_values import short, thinned
from fedflat.experiments.run_folder.jsonl_log import Row

POINTS = 300
"""Most points of a curve."""
COLUMNS = 120
"""Most rounds of a heat map."""
MATRIX = "matrix"
"""The drawing of a square matrix."""


def curves(seeds: Sequence[Sequence[Row]], names: Sequence[str]) -> dict[str, Any]:
    """For each measurement its mean, least and largest over the seeds, in the rounds in which it
    was made.

    Rounds come with the mean bytes, seconds and simulated seconds spent until then, where the rows
    know them. Each measurement has rounds of its own: what is measured now and then is a line
    through those, and thinned by itself.
    """
    found = {
        name: _curve([row for seed in seeds for row in seed if name in row], name) for name in names
    }
    return {
        name: curve
        for name, curve in found.items()
        if any(value is not None for value in curve["mean"])
    }


def score_curves(
    seeds: Sequence[Sequence[Row]], headline: str, others: Sequence[str]
) -> dict[str, Any]:
    """The curves of the headline, on further test sets too (``tests.NAME``), and of other
    measurements."""
    tested = [[{**row, **_tested(row, headline)} for row in seed] for seed in seeds]
    tests = dict.fromkeys(
        name for seed in tested for row in seed for name in _tested(row, headline)
    )
    return curves(tested, list(dict.fromkeys([headline, *tests, *others])))


def _tested(row: Row, headline: str) -> Row:
    return {
        f"tests.{name}": scores[headline]
        for name, scores in row.get("tests", {}).items()
        if headline in scores
    }


def _curve(made: Sequence[Row], name: str) -> dict[str, Any]:
    rows: dict[int, list[Row]] = {}
    for row in made:
        rows.setdefault(row["round"], []).append(row)
    rounds = sorted(rows)
    shown = [rounds[i] for i in thinned(len(rounds), POINTS)]
    at = [_numbers([row[name] for row in rows[round]]) for round in shown]
    curve: dict[str, Any] = {
        "round": shown,
        "evaluations": len(rounds),
        "mean": [_mean(list(values)) for values in at],
        "low": [short(min(values)) if values else None for values in at],
        "high": [short(max(values)) if values else None for values in at],
    }
    for spent, of in _SPENT.items():
        values = [_mean([of(row) for row in rows[round]]) for round in shown]
        if any(value is not None for value in values):
            curve[spent] = values
    return curve


def recorded_numbers(rows: Sequence[Row], drawings: Mapping[str, str]) -> list[Row]:
    """Return the recorded metrics that are drawn as lines, one number for each round and key.

    It is the mean over clients or entries. Numbers that are not finite are None.
    """
    flat = []
    for row in rows:
        plain: Row = {}
        for key, value in row.items():
            if not _is_drawn_as("line", key, value, drawings):
                continue
            if isinstance(value, dict | list):
                if numbers := _numbers(list(value.values() if isinstance(value, dict) else value)):
                    plain[key] = sum(numbers) / len(numbers)
            elif value is None or short(value) is not None:
                plain[key] = value
        flat.append(plain)
    return flat


def heat_maps(rows: Sequence[Row], drawings: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the recorded metrics that are drawn as heat maps, by key: values by entry and round.

    `drawings` are the drawings that the metrics have chosen; others go by the type of the values.
    """
    found: dict[str, list[Row]] = {}
    for row in rows:
        for key, value in row.items():
            if value and any(_is_drawn_as(d, key, value, drawings) for d in ("heat map", MATRIX)):
                found.setdefault(key, []).append(row)
    return {
        key: _matrix(key, seen) if drawings.get(key) == MATRIX else _heat_map(key, seen)
        for key, seen in found.items()
    }


def _is_drawn_as(drawing: str, key: str, value: object, drawings: Mapping[str, str]) -> bool:
    if not isinstance(value, dict | list):
        return drawing == "line"
    return drawing in (drawings.get(key) or _DRAWN_AS[type(value)]).split(" and ")


_DRAWN_AS = {dict: "line", list: "heat map"}


def _matrix(key: str, seen: Sequence[Row]) -> dict[str, Any]:
    """The last square matrix, whose diagonal is left out; a heat map if there is none."""
    last = [short(value, 3) for value in _by_entry(seen[-1][key]).values()]
    side = math.isqrt(len(last))
    if side < 2 or side * side != len(last):
        return _heat_map(key, seen)
    names = [str(i) for i in range(side)]
    return {
        "round": [seen[-1]["round"]],
        "rows": names,
        "columns": names,
        "values": [
            [None if i == j else last[side * j + i] for i in range(side)] for j in range(side)
        ],
        "evaluations": len(seen),
    }


def _heat_map(key: str, seen: Sequence[Row]) -> dict[str, Any]:
    places = _spaced([row["round"] for row in seen], COLUMNS)
    columns = [_by_entry(seen[i][key]) for i in places]
    entries = sorted({entry for column in columns for entry in column}, key=_number_first)
    return {
        "round": [seen[i]["round"] for i in places],
        "rows": entries,
        "values": [[short(column.get(entry), 3) for column in columns] for entry in entries],
        "evaluations": len(seen),
    }


def _by_entry(values: dict[str, Any] | list[Any]) -> dict[str, Any]:
    return values if isinstance(values, dict) else {str(i): one for i, one in enumerate(values)}


def _number_first(entry: str) -> tuple[int, str]:
    return (int(entry), "") if entry.isdecimal() else (sys.maxsize, entry)


def _spaced(rounds: Sequence[int], limit: int) -> list[int]:
    """Which rounds to keep: those next to places that lie evenly on their axis, with the first and
    the last.

    >>> _spaced([0, 10, 20, 30, 31, 32, 33, 40], 5)
    [0, 1, 2, 3, 7]
    """
    if len(rounds) <= limit:
        return list(range(len(rounds)))
    first, step = rounds[0], (rounds[-1] - rounds[0]) / (limit - 1)
    found = {
        min(range(len(rounds)), key=lambda i: abs(rounds[i] - first - k * step))
        for k in range(limit)
    }
    return sorted(found)


def _bytes(row: Row) -> float | None:
    down, up, between = (short(row.get(name), 15) for name in ("down", "up", "c2c"))
    return None if down is None or up is None else down + up + (between or 0)


_SPENT: dict[str, Callable[[Row], float | None]] = {
    "bytes": _bytes,
    "seconds": lambda row: row.get("seconds"),
    "clock": lambda row: row.get("clock"),
}


def _numbers(values: list[Any]) -> list[float]:
    return [value for value in values if short(value) is not None]


def _mean(values: list[Any]) -> float | None:
    numbers = _numbers(values)
    return short(sum(numbers) / len(numbers), 6) if numbers else None
