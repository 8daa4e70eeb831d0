"""Rows of text in columns under each other, as wide as there is room."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

GAP = "  "


def aligned(rows: Sequence[Sequence[str]], room: int | None = None) -> str:
    """Columns under their heads, the first row; the first column to the left, the others to the
    right.

    Where they take more than ``room`` characters they come in several parts below each other, each
    with the first column, whose texts go over several lines where they are longer than half of it.

    >>> print(aligned([["method", "accuracy", "loss"], ["fedavg", "90.1", "0.31"], ["fedsam + swa", "94", "0.2"]], 20))
    method      accuracy
    ----------  --------
    fedavg          90.1
    fedsam +          94
    swa
    <BLANKLINE>
    method      loss
    ----------  ----
    fedavg      0.31
    fedsam +     0.2
    swa
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if room is None or sum(widths) + len(GAP) * (len(widths) - 1) <= room:
        return _part(rows, widths)
    widths[0] = min(widths[0], room // 2)
    parts: list[list[int]] = [[0]]
    for column in range(1, len(widths)):
        if (
            len(parts[-1]) > 1
            and sum(len(GAP) + widths[i] for i in [*parts[-1], column]) - len(GAP) > room
        ):
            parts.append([0])
        parts[-1].append(column)
    return "\n\n".join(
        _part([[row[i] for i in part] for row in rows], [widths[i] for i in part]) for part in parts
    )


def _part(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    heads, *others = rows
    lines = []
    for row in (heads, ["-" * width for width in widths], *others):
        name, *more = wrap(row[0], widths[0], break_on_hyphens=False) or [""]
        numbers = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines += [[name.ljust(widths[0]), *numbers], *([name] for name in more)]
    return "\n".join(GAP.join(line).rstrip() for line in lines)
