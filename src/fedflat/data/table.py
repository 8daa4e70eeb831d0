"""Tables: columns of values by name, from CSV files, data frames and other collections."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedflat.data.categories import is_missing, is_number
from fedflat.errors import DataError, SettingError, nearest, shown
from fedflat.files import open_text

ADVICE = (
    "Name the columns of numbers: inputs=[...], write categories as numbers, or leave out rows "
    "with missing values: missing='skip'."
)
"""What to do about a value that is no number."""


@dataclass(frozen=True)
class DataTable:
    """Columns of equal length, by name."""

    where: str
    """What error messages call it."""
    columns: Mapping[str, Sequence[Any]]
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of the classes of columns that hold class numbers."""
    header: int = 0
    """The number of lines before the first row, for error messages."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def column(self, name: str) -> Sequence[Any]:
        """A column; an error with the nearest name if there is none."""
        if name not in self.columns:
            known = list(self.columns)
            raise SettingError(
                f"{self.where} has no column {shown(name)}.{nearest(str(name), known)} It has: "
                f"{', '.join(known[:30])}."
            )
        return self.columns[name]

    def rows(self, places: Collection[int]) -> DataTable:
        """Some of the rows."""
        columns = {name: [values[k] for k in places] for name, values in self.columns.items()}
        return DataTable(self.where, columns, self.class_names, self.header)

    def complete(self, names: Sequence[str]) -> list[int]:
        """The rows with a value in each of these columns."""
        columns = [self.column(name) for name in names]
        return [
            row
            for row in range(len(self))
            if not any(is_missing(column[row]) for column in columns)
        ]

    def numbers(self, names: Sequence[str], advice: str = ADVICE) -> Tensor:
        """Columns of numbers, as a matrix with a column for each; ``advice`` ends the error."""
        found = torch.empty(len(self), len(names), dtype=torch.float64)
        for place, name in enumerate(names):
            column = self.column(name)
            wrong = [row for row, value in enumerate(column) if not is_number(value)]
            if wrong:
                raise DataError(
                    f"{self.where}, row {wrong[0] + 1 + self.header}: column {name!r} must be a "
                    f"finite number, found {shown(column[wrong[0]])}. {advice}"
                )
            found[:, place] = torch.tensor([float(value) for value in column], dtype=torch.float64)
        return found.float()


def read_csv(path: Path, owner: str = "csv") -> DataTable:
    """The table in a CSV file whose first line has the names of the columns; values are text.

    A file that has not changed is read once per process.
    """
    try:
        stat = path.stat()
        return _read_csv(path, owner, stat.st_size, stat.st_mtime_ns)
    except (OSError, csv.Error, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{owner}: {path} cannot be read: {reason}.") from None


@lru_cache(maxsize=4)
def _read_csv(path: Path, owner: str, size: int, written: int) -> DataTable:
    with open_text(path, newline="") as file:
        header, *rows = [row for row in csv.reader(file) if row] or [[]]
    header = [name.strip().removeprefix("\ufeff") for name in header]
    if len(set(header)) < len(header) or not all(header):
        raise DataError(
            f"{owner}: the columns of {path} must have different names in its first line, found "
            f"{shown(', '.join(header))}."
        )
    for line, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise DataError(
                f"{owner}: {path}, row {line}: there must be {len(header)} values as in the first "
                f"line, found {len(row)}."
            )
    columns = {name: [row[place].strip() for row in rows] for place, name in enumerate(header)}
    return DataTable(f"{owner}: {path}", columns, header=1)


def as_table(value: Any, owner: str = "table") -> DataTable:
    """A pandas DataFrame, a Hugging Face data set, a mapping of columns, or rows as mappings.

    >>> as_table({"a": [1, 2], "b": ["x", "y"]}).columns["b"]
    ['x', 'y']
    >>> as_table([{"a": 1}, {"a": 2}]).columns["a"]
    [1, 2]
    """
    if isinstance(value, DataTable):
        return value
    if hasattr(value, "column_names") and hasattr(value, "features"):  # of Hugging Face
        return DataTable(
            owner, {name: list(value[name]) for name in value.column_names}, _named(value)
        )
    if hasattr(value, "columns") and hasattr(value, "iloc"):  # of pandas
        return _same_lengths(
            DataTable(owner, {str(name): value[name].tolist() for name in value.columns})
        )
    if isinstance(value, Mapping):
        return _same_lengths(
            DataTable(owner, {str(name): _values(column) for name, column in value.items()})
        )
    return _from_rows(value, owner)


def _named(value: Any) -> dict[str, tuple[str, ...]]:
    """The class names that a Hugging Face data set knows."""
    features = value.features or {}
    return {
        name: tuple(features[name].names)
        for name in features
        if isinstance(getattr(features[name], "names", None), list | tuple)
    }


def _values(column: Any) -> list[Any]:
    if isinstance(column, Tensor | np.ndarray) and column.ndim > 1:
        return list(column)
    return list(column.tolist() if hasattr(column, "tolist") else column)


def _from_rows(value: Any, owner: str) -> DataTable:
    """Rows as mappings: a list of them, or a torch Dataset."""
    items: Iterable[Any] = value
    if hasattr(value, "__getitem__") and hasattr(value, "__len__"):
        items = (value[place] for place in range(len(value)))
    columns: dict[str, list[Any]] = {}
    try:
        for place, item in enumerate(items):
            if not isinstance(item, Mapping):
                raise TypeError(f"its example {place} is a {type(item).__name__}")
            if place and set(item) != set(columns):
                raise TypeError(f"its example {place} has other names than the first")
            for name, cell in item.items():
                columns.setdefault(name, []).append(cell)
    except TypeError as error:
        raise SettingError(
            f"{owner}: give a pandas DataFrame, a Hugging Face data set, a dict of columns, or a "
            f"list or torch Dataset of dicts, found {type(value).__name__} ({error})."
        ) from None
    return DataTable(owner, columns)


def _same_lengths(table: DataTable) -> DataTable:
    lengths = {name: len(column) for name, column in table.columns.items()}
    if len(set(lengths.values())) > 1:
        raise SettingError(f"{table.where}: all columns must have the same length, found {lengths}")
    return table
