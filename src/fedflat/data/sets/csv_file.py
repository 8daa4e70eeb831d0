"""Rows of a CSV file with numbers.

    csv_file('patients.csv', target='outcome', clients=1, split=0.8)

The first line has the names of the columns. One column is the target, the others are the inputs.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from fedflat.data.examples import Examples
from fedflat.data.federation import DataSpec, Federation
from fedflat.data.partitions.iid import Iid
from fedflat.data.partitions.partition import Partition
from fedflat.data.splitting import check_cut, federate
from fedflat.errors import DataError, SettingError, nearest, shown
from fedflat.files import open_text
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class CsvFile(DataSpec):
    """The rows of a CSV file; every fifth row is for testing.

    path
        The file. Its first line has the names of the columns.
    partition
        How examples are assigned to clients. The other arguments are given by name.
    target
        The column to predict; by default the last one. Whole numbers and words are classes; other
        numbers are values (``--task regression``).
    classes
        The classes in their order, for files in which not all occur. By default those that occur,
        sorted.
    clients
        The number of clients, K.
    split, seed
        As for the named sets.
    """

    origin = "reads a file of yours"

    path: str
    partition: Partition = field(default_factory=Iid)
    _: KW_ONLY
    target: str | None = None
    classes: tuple[str, ...] | None = None
    clients: int = 100
    split: float | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path or "\0" in self.path:
            raise SettingError(
                f"csv_file: the path of a file is needed, in quotes, found {shown(self.path)}."
            )
        check_cut("csv_file", self.partition, self.clients, self.split, self.seed)
        if self.classes is not None:
            if not isinstance(self.classes, list | tuple) or not self.classes:
                raise SettingError(
                    "csv_file: classes must be a list such as ['no', 'yes'], found "
                    f"{shown(self.classes)}."
                )
            object.__setattr__(self, "classes", tuple(map(str, self.classes)))

    def open(self, seed: int) -> Federation:
        """The federation for this seed or the set's own."""
        inputs, words = self._read()
        targets, names = self._targets(words)
        test = torch.arange(len(targets)) % 5 == 4
        order = torch.cat([(~test).nonzero().squeeze(1), test.nonzero().squeeze(1)])
        examples = Examples(inputs[order], targets[order], len(names))
        return federate(
            examples,
            int((~test).sum()),
            self.partition,
            self.clients,
            seed if self.seed is None else self.seed,
            split=self.split,
        )

    def class_names(self) -> tuple[str, ...]:
        """See `DataSpec.class_names`: the words of the target column."""
        return self._targets(self._read()[1])[1]

    def _read(self) -> tuple[Tensor, list[str]]:
        """The inputs, and the targets as they are written."""
        path = Path(os.path.expanduser(self.path))
        try:
            with open_text(path, newline="") as file:
                header, *rows = [row for row in csv.reader(file) if row] or [[]]
        except (OSError, csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"csv_file: {path} cannot be read: {error}.") from None
        if len(rows) < 5 or len(header) < 2:
            raise DataError(
                f"csv_file: {path} must have two columns with names and five rows, found "
                f"{len(header)} and {len(rows)}."
            )
        target = header[-1] if self.target is None else self.target
        if target not in header:
            raise SettingError(
                f"csv_file: {path} has no column {target!r}.{nearest(target, header)}"
            )
        at = header.index(target)
        return _numbers(path, header, rows, at), [row[at].strip() for row in rows]

    def _targets(self, words: Sequence[str]) -> tuple[Tensor, tuple[str, ...]]:
        """The targets, and the names of the classes; none if they are values."""
        if self.classes is None and not all(map(_whole, words)) and all(map(_number, words)):
            return torch.tensor([[float(word)] for word in words]), ()
        whole = all(map(_whole, words))
        names = self.classes or tuple(sorted(set(words), key=int if whole else None))
        places = {name: place for place, name in enumerate(names)}
        unknown = sorted(set(words) - set(places))
        if unknown:
            raise DataError(
                f"csv_file: {self.path} has the class {unknown[0]!r}, and the classes are "
                f"{', '.join(names[:20])}. Add it to classes=[...]."
            )
        return torch.tensor([places[word] for word in words]), names


def _numbers(path: Path, header: list[str], rows: list[list[str]], target: int) -> Tensor:
    found = []
    for line, row in enumerate(rows, 2):
        cells = [cell for place, cell in enumerate(row) if place != target]
        wrong = [cell for cell in cells if not _number(cell)]
        if wrong or len(row) != len(header):
            raise DataError(
                f"csv_file: {path}, row {line}: expected {len(header) - 1} finite numbers and the "
                f"target, found {shown(wrong[0] if wrong else row)}. Write categories as numbers."
            )
        found.append([float(cell) for cell in cells])
    return torch.tensor(found)


def _number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _whole(word: str) -> bool:
    return word.isascii() and word.lstrip("-").isdecimal()


csv_file = register("data set", "csv_file")(CsvFile)
