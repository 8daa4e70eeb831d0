"""Which cells a command selects.

    fedgloss/table3                    a table of a paper: all presets that are its cells
    fedgloss                           all tables of a paper
    man/cifar10-delta0.3-fedavg        one preset, or the main run of a column by its name
    'eccv22/cifar10-alpha0-*'          presets whose names match a shell pattern
    mine.toml, toy                     a table in a file; the toy table of fedflat

``--cells`` accepts such patterns without the paper: ``cifar10-cnn-alpha0-{fedavg,fedgloss}`` or
``'*-fedavg'``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from fedflat.errors import SettingError, SpellingError, nearest
from fedflat.papers.presets import PAPERS, every, find
from fedflat.papers.presets.preset import reference
from fedflat.papers.reproduce.cells import TableCell
from fedflat.papers.reproduce.table_file import read_table

TOY = Path(__file__).with_name("toy.toml")


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    source: str
    """Origin of the numbers."""
    cells: tuple[TableCell, ...]

    def matching_cells(self, patterns: Sequence[str]) -> tuple[TableCell, ...]:
        """Return the cells that match any of the patterns, in the order of the table."""
        selected = set()
        for pattern in (one for text in patterns for one in expand_patterns(text)):
            matching = {cell.name for cell in self.cells if matches(cell.name, pattern)}
            if not matching:
                short = [cell.name.partition("/")[2] for cell in self.cells]
                raise SpellingError(
                    f"--cells: no cell of {self.name} matches {pattern!r}."
                    f"{nearest(pattern, short)} "
                    f"`fedflat reproduce {self.name} --list` lists them."
                )
            selected |= matching
        return tuple(cell for cell in self.cells if cell.name in selected)


def find_table(query: str) -> Table:
    """Return the table of this name, or in this file."""
    if query == "toy":
        return _from_file(TOY, "toy")
    if query.endswith((".toml", ".json")) or os.path.isfile(query):
        return _from_file(Path(query), Path(query).stem)
    presets = every()
    paper, _, rest = query.partition("/")
    tables = {f"{paper_of(p.name)}/{_table_key(p.table)}" for p in presets}
    if query in PAPERS:
        found = [p for p in presets if paper_of(p.name) == query]
    elif query in tables:
        found = [p for p in presets if paper_of(p.name) == paper and _table_key(p.table) == rest]
    elif any(mark in query for mark in "*?[{,"):
        found = [p for p in presets if any(matches(p.name, one) for one in expand_patterns(query))]
    else:
        names = {name for p in presets for name in (p.name, p.column) if name}
        if query not in names:
            known = [*PAPERS, *tables, *names, "toy"]
            raise SpellingError(
                f"reproduce: no table, preset or file is called {query[:100]!r}."
                f"{nearest(query, known)} Tables: {', '.join(sorted(tables))}, toy; "
                "`fedflat list presets` lists the presets."
            )
        found = [find(query)]
    if not found:
        raise SpellingError(
            f"reproduce: no preset matches {query!r}. `fedflat list presets` lists them all."
        )
    where = (
        f"{paper}'s {found[0].table}" if query in tables else paper if "/" not in query else query
    )
    source = (
        "none: none are reported" if all(p.not_printed for p in found) else f"the paper ({paper})"
    )
    return Table(query, where, source, tuple(map(TableCell.of, found)))


def _from_file(path: Path, name: str) -> Table:
    title, source, cells = read_table(path, name)
    return Table(name, title, source, cells)


def cells_of(table: Table, patterns: Sequence[str] | None) -> tuple[TableCell, ...]:
    """Return the cells to run. Those of a paper's table must be selected by patterns."""
    if patterns:
        return table.matching_cells(patterns)
    if len(table.cells) > 1 and paper_of(table.cells[0].name) in PAPERS:
        rounds = sum(cell.rounds for cell in table.cells)
        raise SettingError(
            f"reproduce: {table.name} has {len(table.cells)} cells, {rounds:,} rounds in all. "
            "Select cells with --cells, such as --cells "
            f"'{table.cells[0].name.partition('/')[2]}', or --cells '*' for all; --list lists them."
        )
    return table.cells


def with_references(cells: Iterable[TableCell], table: Table) -> list[TableCell]:
    """Return the cells, and those whose scores are targets of others.

    A target is a cell of the same table, by its name with or without the paper, or a preset.
    """
    named = {
        name: cell for cell in table.cells for name in (cell.name, cell.name.partition("/")[2])
    }
    found: dict[str, TableCell] = {}
    for cell in cells:
        factor, name = reference(cell.target)
        if name:
            other = named[name] if name in named else TableCell.of(find(name))
            if other.needs_target or other.needs_curvature:
                raise SettingError(
                    f"reproduce: the target of {cell.name} must be a score, and {other.name} "
                    f"reports {other.measure}. Name another cell."
                )
            found.setdefault(other.name, other)
            target = other.name if factor == 1 else f"{factor:g}*{other.name}"
            cell = replace(cell, target=target)
        found[cell.name] = cell
    return list(found.values())


def paper_of(name: str) -> str:
    """Return the paper in a cell's name."""
    return name.partition("/")[0]


def expand_patterns(text: str) -> Iterable[str]:
    """Return the patterns in a text: separated by commas, with braces expanded.

    >>> list(expand_patterns("a-{b,c},d*"))
    ['a-b', 'a-c', 'd*']
    """
    for part in re.findall(r"(?:\{[^{}]*\}|[^,{}])+", text):
        braces = re.search(r"\{([^{}]*)\}", part)
        if braces is None:
            yield part.strip()
        else:
            for choice in braces[1].split(","):
                yield from expand_patterns(part[: braces.start()] + choice + part[braces.end() :])


def matches(name: str, pattern: str) -> bool:
    """True if a name matches a shell pattern, with or without its paper."""
    return fnmatchcase(name, pattern) or fnmatchcase(name.partition("/")[2], pattern)


def _table_key(table: str) -> str:
    """Return ``Table 4.22`` as it is typed: ``table4.22``."""
    return table.lower().replace(" ", "")
