"""Plain text tables, split into parts that fit a given width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import wrap

GAP = "  "


def aligned(rows: Sequence[Sequence[str]], room: int | None = None) -> str:
    """A table whose first row is the header. The first column is left-aligned, the others right.

    If the table is wider than ``room`` characters, its columns are split into several tables, one
    below the other. Each has the first column, whose texts wrap at half of ``room``.

    >>> rows = [["method", "accuracy", "loss"], ["fedavg", "90.1", "0.31"]]
    >>> rows.append(["fedsam + swa", "94", "0.2"])
    >>> print(aligned(rows, 20))
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
    header, *others = rows
    lines = []
    for row in (header, ["-" * width for width in widths], *others):
        name, *continuation = wrap(row[0], widths[0], break_on_hyphens=False) or [""]
        numbers = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines += [[name.ljust(widths[0]), *numbers], *([name] for name in continuation)]
    return "\n".join(GAP.join(line).rstrip() for line in lines)


def span(seconds: float | None) -> str:
    """A time for people, in one unit, so that times can be compared.

    >>> span(12.34), span(150), span(9000), span(260000), span(None)
    ('12.3 s', '2.5 min', '2.5 h', '3.0 d', '-')
    """
    if seconds is None or not math.isfinite(seconds):
        return "-"
    for unit, step, least in (("d", 86400, 172800), ("h", 3600, 7200), ("min", 60, 120)):
        if seconds >= least:
            return f"{seconds / step:,.1f} {unit}"
    return f"{seconds:.1f} s"


def duration(seconds: float) -> str:
    """A time for people, in two units.

    >>> duration(42), duration(125), duration(7380)
    ('42s', '2m05s', '2h03m')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def size(count: float) -> str:
    """Bytes for people.

    >>> size(1536), size(2.5e9)
    ('1.5 kB', '2.50 GB')
    """
    for unit, step in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= step:
            digits = 2 if unit == "GB" else 1
            return f"{count / step:.{digits}f} {unit}"
    return f"{count:.0f} B"
