"""Which cells a command means.

    fedgloss/table3                    a table of a paper: all presets that are its cells
    fedgloss                           all tables of a paper
    man/cifar10-delta0.3-fedavg        one preset, or the column's main run by the column's name
    'eccv22/cifar10-alpha0-*'          presets whose names match, as file names do in a shell
    mine.toml, toy                     a table in a file; the toy table that comes with fedflat

``--cells`` takes such patterns too, without the paper: ``cifar10-cnn-alpha0-{fedavg,fedgloss}`` or
``'*-fedavg'``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from fedflat.errors import SettingError, SpellingError, nearest
from fedflat.papers.presets import PAPERS, every, find
from fedflat.papers.reproduce.cells import TableCell
from fedflat.papers.reproduce.table_file import read_table

TOY = Path(__file__).with_name("toy.toml")


@dataclass(frozen=True)
class Table:
    """Cells that go together."""

    name: str
    title: str
    source: str
    """Whose numbers they are."""
    cells: tuple[TableCell, ...]

    def chosen(self, patterns: Sequence[str]) -> tuple[TableCell, ...]:
        """The cells that match any of the patterns, in the order of the table."""
        wanted = set()
        for pattern in (one for text in patterns for one in expanded(text)):
            found = {cell.name for cell in self.cells if _fits(cell.name, pattern)}
            if not found:
                short = [cell.name.partition("/")[2] for cell in self.cells]
                raise SpellingError(
                    f"--cells: no cell of {self.name} matches {pattern!r}.{nearest(pattern, short)} "
                    f"`fedflat reproduce {self.name} --list` lists them."
                )
            wanted |= found
        return tuple(cell for cell in self.cells if cell.name in wanted)


def find_table(said: str) -> Table:
    """The table of a name, or in a file."""
    if said == "toy":
        return _from_file(TOY, "toy")
    if said.endswith((".toml", ".json")) or os.path.isfile(said):
        return _from_file(Path(said), Path(said).stem)
    presets = every()
    paper, _, rest = said.partition("/")
    tables = {f"{paper_of(p.name)}/{_word(p.table)}" for p in presets}
    if said in PAPERS:
        found = [p for p in presets if paper_of(p.name) == said]
    elif said in tables:
        found = [p for p in presets if paper_of(p.name) == paper and _word(p.table) == rest]
    elif any(mark in said for mark in "*?[{,"):
        found = [p for p in presets if any(_fits(p.name, one) for one in expanded(said))]
    else:
        names = {name for p in presets for name in (p.name, p.column) if name}
        if said not in names:
            known = [*PAPERS, *tables, *names, "toy"]
            raise SpellingError(
                f"reproduce: no table, preset or file is called {said[:100]!r}.{nearest(said, known)} Tables: "
                f"{', '.join(sorted(tables))}, toy; `fedflat list presets` lists the presets."
            )
        found = [find(said)]
    if not found:
        raise SpellingError(
            f"reproduce: no preset matches {said!r}. `fedflat list presets` lists them all."
        )
    where = f"{paper}'s {found[0].table}" if said in tables else paper if "/" not in said else said
    source = "nobody: none are reported" if all(p.unsaid for p in found) else f"the paper ({paper})"
    return Table(said, where, source, tuple(map(TableCell.of, found)))


def _from_file(path: Path, name: str) -> Table:
    title, source, cells = read_table(path, name)
    return Table(name, title, source, cells)


def cells_of(table: Table, patterns: Sequence[str] | None) -> tuple[TableCell, ...]:
    """The cells to run; of a large table they must be named."""
    if patterns:
        return table.chosen(patterns)
    if len(table.cells) > 1 and paper_of(table.cells[0].name) in PAPERS:
        rounds = sum(cell.rounds for cell in table.cells)
        raise SettingError(
            f"reproduce: {table.name} has {len(table.cells)} cells, {rounds:,} rounds in all. Say which to run with "
            f"--cells, such as --cells '{table.cells[0].name.partition('/')[2]}', or --cells '*' for all; --list lists "
            "them."
        )
    return table.cells


def paper_of(name: str) -> str:
    """The first word of a cell's name."""
    return name.partition("/")[0]


def expanded(text: str) -> Iterable[str]:
    """The patterns a text stands for: commas part them, and braces are written out.

    >>> list(expanded("a-{b,c},d*"))
    ['a-b', 'a-c', 'd*']
    """
    for part in re.findall(r"(?:\{[^{}]*\}|[^,{}])+", text):
        braces = re.search(r"\{([^{}]*)\}", part)
        if braces is None:
            yield part.strip()
        else:
            for choice in braces[1].split(","):
                yield from expanded(part[: braces.start()] + choice + part[braces.end() :])


def _fits(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name.partition("/")[2], pattern)


def _word(table: str) -> str:
    """``Table 4.22`` as it is typed: ``table4.22``."""
    return table.lower().replace(" ", "")
