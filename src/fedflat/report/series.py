"""Evaluations over seeds as curves: the mean with the least and the largest, thinned to what a
screen can show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fedflat.analysis.shown_values import short, thinned
from fedflat.experiments.run_folder.jsonl_log import Row

POINTS = 300
"""Most points of a curve."""
COLUMNS = 120
"""Most rounds of a heat map."""


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
    kept = [rounds[i] for i in thinned(len(rounds), POINTS)]
    at = [_numbers([row[name] for row in rows[round]]) for round in kept]
    curve: dict[str, Any] = {
        "round": kept,
        "evaluations": len(rounds),
        "mean": [_mean(list(values)) for values in at],
        "low": [short(min(values)) if values else None for values in at],
        "high": [short(max(values)) if values else None for values in at],
    }
    for spent, of in _SPENT.items():
        values = [_mean([of(row) for row in rows[round]]) for round in kept]
        if any(value is not None for value in values):
            curve[spent] = values
    return curve


def recorded_numbers(rows: Sequence[Row]) -> list[Row]:
    """The recorded metrics, one number for each round and key: the mean over clients, None if it is
    not finite."""
    flat = []
    for row in rows:
        plain = {
            name: value for name, value in row.items() if value is None or short(value) is not None
        }
        for name, value in row.items():
            if isinstance(value, dict) and (numbers := _numbers(list(value.values()))):
                plain[name] = sum(numbers) / len(numbers)
        flat.append(plain)
    return flat


def recorded_lists(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """The recorded metrics that are lists, by key: for each entry of the list its values over the
    rounds."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        for key, value in row.items():
            if isinstance(value, list) and value:
                found.setdefault(key, []).append(row)
    return {key: _heat_map(key, seen) for key, seen in found.items()}


def _heat_map(key: str, seen: Sequence[Row]) -> dict[str, Any]:
    kept = [seen[i] for i in _spaced([row["round"] for row in seen], COLUMNS)]
    entries = max(len(row[key]) for row in kept)
    columns = [row[key] + [None] * (entries - len(row[key])) for row in kept]
    values = [[short(column[c], 3) for column in columns] for c in range(entries)]
    return {"round": [row["round"] for row in kept], "values": values, "evaluations": len(seen)}


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
