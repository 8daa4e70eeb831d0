"""Reading the published numbers, which the papers' modules keep as they are printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedCell:
    """One entry of a table: ``83.9±0.4``, ``52.00±0.36(206)``, ``65.00``, or ``X`` for no
    convergence."""

    value: float | None
    spread: float | None = None
    aside: str = ""
    """What stands in brackets."""


def read(text: str) -> PublishedCell:
    """The entry a text stands for.

    >>> read("52.00±0.36(206)"), read("X")
    (PublishedCell(value=52.0, spread=0.36, aside='206'), PublishedCell(value=None, spread=None, aside=''))
    """
    if text == "X":
        return PublishedCell(None)
    found = re.fullmatch(r"([\d.]+)(?:±([\d.]+))?(?:\((.*)\))?", text)
    assert found, text
    return PublishedCell(
        float(found[1]), None if found[2] is None else float(found[2]), found[3] or ""
    )


def rows(table: str, *heads: str) -> Iterator[tuple[str, dict[str, PublishedCell]]]:
    """For each line of a table its first word and its entries, by the heads of their columns; ``-``
    is no entry.

    >>> list(rows("fedavg 1.5 -", "one", "two"))
    [('fedavg', {'one': PublishedCell(value=1.5, spread=None, aside='')})]
    """
    for line in table.strip().splitlines():
        name, *cells = line.split()
        assert len(cells) == len(heads), line
        yield (
            name,
            {head: read(cell) for head, cell in zip(heads, cells, strict=True) if cell != "-"},
        )
