"""Values of analyses as the report shows them: checked, shortened and thinned.

Numbers that are not finite become None and are drawn as gaps. Values that cannot be shown raise
`Damaged`.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from typing import Any

from fedflat.files import Damaged

MAX_SIDE = 61
"""Largest number of points on a side of a surface."""
MAX_POINTS = 400
"""Largest number of points of a density or an interpolation."""
Number = float | None


def short(value: object, digits: int = 5) -> Number:
    """Return a number with as many digits as can be seen; None if it is none, or not finite.

    >>> short(0.123456789), short(float("nan")), short("x"), short(10**400)
    (0.12346, None, None, None)
    """
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not abs(value) <= sys.float_info.max
    ):
        return None
    rounded = float(f"{value:.{digits}g}")
    if not math.isfinite(rounded):  # rounded up beyond the largest number
        return float(value)
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def thinned(count: int, limit: int) -> list[int]:
    """Return which of ``count`` places to draw: evenly spaced, with the first and the last.

    >>> thinned(3, 5), thinned(9, 3)
    ([0, 1, 2], [0, 4, 8])
    """
    if count <= limit:
        return list(range(count))
    return [round(i * (count - 1) / (limit - 1)) for i in range(limit)]


def shown(value: object) -> Any:
    """Return any JSON value with shortened numbers."""
    if isinstance(value, list):
        return [shown(one) for one in value]
    if isinstance(value, dict):
        return {str(name): shown(one) for name, one in value.items()}
    return short(value) if isinstance(value, float) else value


def shorts(values: Sequence[object]) -> list[Number]:
    """Return shortened numbers."""
    return [short(value) for value in values]


def same_length(*columns: Sequence[object]) -> None:
    """Raise `Damaged` unless all columns have one length."""
    lengths = [str(len(column)) for column in columns]
    if len(set(lengths)) != 1:
        raise Damaged(f"columns of lengths {', '.join(lengths)} should be equal")


def table(columns: dict[str, list[Any]], limit: int = MAX_POINTS) -> dict[str, Any]:
    """Return columns of one length, thinned together."""
    read = {name: shorts(values) for name, values in columns.items()}
    same_length(*read.values())
    places = thinned(len(next(iter(read.values()))), limit)
    return {name: [values[i] for i in places] for name, values in read.items()}


def grid(result: dict[str, Any]) -> dict[str, Any]:
    """Return the axes and values of a surface or a plane, thinned on both sides."""
    x, y = shorts(result["x"]), shorts(result["y"])
    if not x or not y:
        raise Damaged("it has no points")
    columns, rows = thinned(len(x), MAX_SIDE), thinned(len(y), MAX_SIDE)
    found: dict[str, Any] = {
        "x": [x[i] for i in columns],
        "y": [y[i] for i in rows],
        "points": [len(x), len(y)],
    }
    for name in ("loss", "error"):
        if result.get(name) is None:
            continue
        values = result[name]
        same_length(y, values)
        for row in values:
            same_length(x, row)
        found[name] = [[short(values[j][i], 4) for i in columns] for j in rows]
    if "loss" not in found and "error" not in found:
        raise Damaged("it has neither loss nor error")
    return found


def png_text(text: str) -> str:
    """Return the base64 letters of a PNG file. Refuse anything else."""
    if not text.startswith("iVBORw0KGgo") or not re.fullmatch("[A-Za-z0-9+/]+={0,2}", text):
        raise Damaged("a picture is no PNG file")
    return text
