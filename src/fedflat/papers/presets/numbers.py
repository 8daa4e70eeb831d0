"""Parse the published numbers, which the papers' modules contain as they are printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedCell:
    """One entry of a table, such as ``83.9±0.4``, ``52.00±0.36(206)``, ``65.00`` or ``X``.

    ``X`` means no convergence, ``~`` a target that is not reached.
    """

    value: float | None
    spread: float | None = None
    aside: str = ""
    """The text in brackets."""
    unreached: bool = False


def read(text: str) -> PublishedCell:
    """Parse an entry.

    >>> read("52.00±0.36(206)")
    PublishedCell(value=52.0, spread=0.36, aside='206', unreached=False)
    >>> read("X").value, read("~").unreached
    (None, True)
    """
    if text in ("X", "~"):
        return PublishedCell(None, unreached=text == "~")
    match = re.fullmatch(r"([\d.]+)(?:±([\d.]+))?(?:\((.*)\))?", text)
    assert match, text
    return PublishedCell(
        float(match[1]), None if match[2] is None else float(match[2]), match[3] or ""
    )


def rows(table: str, *heads: str) -> Iterator[tuple[str, dict[str, PublishedCell]]]:
    """Iterate over the first word of each line and its entries by column. ``-`` is no entry.

    >>> list(rows("fedavg 1.5 -", "one", "two"))
    [('fedavg', {'one': PublishedCell(value=1.5, spread=None, aside='', unreached=False)})]
    """
    for line in table.strip().splitlines():
        name, *cells = line.split()
        assert len(cells) == len(heads), line
        yield (
            name,
            {head: read(cell) for head, cell in zip(heads, cells, strict=True) if cell != "-"},
        )
