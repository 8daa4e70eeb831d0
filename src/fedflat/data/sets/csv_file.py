"""Tables of users: rows of a CSV file, and tables given in Python.

    csv('wine.csv', target='quality', owner='hospital', standardize=True)
    csv('photos.csv', target='label', image='path', owner='client', size=[32, 32])
    csv('patients.csv', lda(0.5), target='outcome', clients=20, split=0.8)
    csv('scans.csv', image='path', target='label', owner='hospital', domain='scanner', size=[64, 64])

    table(frame, target='quality', owner='hospital', standardize=True)
    table(load_dataset('cifar10'), target='label', image='img')
    table({'x': [...], 'y': [...]}, target='y')

The first line of a CSV file has the names of the columns. Tables given in Python (data frames,
Hugging Face data sets, columns, rows as dicts) have no text for the command line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedflat.data.partitions.partition import Partition
from fedflat.data.table import DataTable, as_table, read_csv
from fedflat.data.table_set import TableSet
from fedflat.errors import SettingError, shown
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class CsvFile(TableSet):
    """The rows of a CSV file; every fifth row (of each owner) is for testing.

    path
        The file. Its first line has the names of the columns.
    partition
        How examples are assigned to clients. None: by owner if there is one, else ``iid()``. The
        other arguments are given by name.
    test
        A CSV file of test rows with the same columns; None: every fifth row.
    target
        The column to predict; by default the last one. Words and whole numbers are classes; other
        numbers are values, and the default task is regression.
    owner
        The column that names the client of each row.
    domain
        The column with the known domain of each row, such as the camera, or a list of columns. Test
        sets are then scored in each domain, and ``fedcg(labels="oracle")`` uses it.
    inputs
        The columns of numbers to learn from; by default all but target, owner and domain.
    image
        The column with paths of images, relative to the CSV file; images are the inputs.
    size, channels
        Of images: height and width after resizing; 3, colour, or 1, grey.
    standardize
        Shift and scale each column to mean 0 and standard deviation 1 of the examples that clients
        train on.
    classes
        The classes in their order, for files in which not all occur. By default those that occur,
        sorted.
    values
        True: targets are values; False: classes. None: decide by the column.
    missing
        "error": refuse rows with a missing value; "skip": leave them out.
    clients
        The number of clients, K, for partitions other than ``by_user()``. None: 100.
    split, pool, seed
        As for the named sets. ``pool=True``: no row is set aside, clients hold out the test set.
    """

    origin = "reads a file of yours"

    path: str
    partition: Partition | None = None  # type: ignore[assignment]
    test: str | None = None

    def __post_init__(self) -> None:
        for path in (self.path, "x" if self.test is None else self.test):
            if not isinstance(path, str) or not path or "\0" in path:
                raise SettingError(
                    f"csv: the path of a file is needed, in quotes, found {shown(path)}. "
                    "Write csv('wine.csv'); in a shell quote the whole: "
                    "--on \"csv('wine.csv')\"."
                )
        super().__post_init__()

    def tables(self) -> tuple[DataTable, DataTable | None]:
        train = read_csv(Path(os.path.expanduser(self.path)))
        test = None if self.test is None else read_csv(Path(os.path.expanduser(self.test)))
        return train, test

    def folder(self) -> Path:
        """See `TableSet.folder`: that of the file."""
        return Path(os.path.expanduser(self.path)).parent


csv = register("data set", "csv")(CsvFile)


@dataclass(frozen=True, repr=False, eq=False)
class TableInMemory(TableSet):
    train: DataTable
    partition: Partition | None = None  # type: ignore[assignment]
    test: DataTable | None = None
    root: str = "."

    kind = key = "table"

    def __repr__(self) -> str:
        return f"table(<{len(self.train)} rows of {len(self.train.columns)}>, {self.partition!r})"

    def tables(self) -> tuple[DataTable, DataTable | None]:
        return self.train, self.test

    def folder(self) -> Path:
        return Path(self.root)


def table(
    data: Any,
    partition: Partition | None = None,
    *,
    test: Any = None,
    target: str | None = None,
    owner: str | None = None,
    domain: str | Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    image: str | None = None,
    size: tuple[int, int] | None = None,
    channels: int = 3,
    standardize: bool = False,
    classes: Sequence[str] | None = None,
    values: bool | None = None,
    missing: str = "error",
    clients: int | None = None,
    split: float | None = None,
    pool: bool = False,
    root: str | Path = ".",
    seed: int | None = None,
) -> TableInMemory:
    """A data set of the rows of a table.

    ``data`` is a pandas DataFrame, a Hugging Face data set (or its dict of splits, of which
    ``train`` and ``test`` are used), a dict of columns, or a list or torch Dataset of dicts.

    >>> rows = {"a": range(10), "y": ["no", "yes"] * 5, "who": ["x", "x", "y", "y", "y"] * 2}
    >>> on = table(rows, target="y", owner="who")
    >>> on.class_names(), on.open(0).client_names
    (('no', 'yes'), ('x', 'y'))

    The other arguments are those of `csv`; a column of ``inputs`` may hold arrays, and ``image``
    arrays, Pillow images or paths.

    data
        The rows to train on, and to test on if ``test`` is None.
    partition
        How examples are assigned to clients. None: by owner if there is one, else ``iid()``.
    test
        A table of test rows; None: every fifth row, of each owner.
    target, owner, domain, inputs, image
        The columns to predict, with the clients, with known domains, to learn from, with images.
    size, channels
        Of images: height and width after resizing; 3, colour, or 1, grey.
    standardize
        Shift and scale each column to mean 0 and standard deviation 1 of training examples.
    classes, values
        The classes in their order; whether targets are values.
    missing
        "error": refuse rows with a missing value; "skip": leave them out.
    clients, split, pool, seed
        As for the named sets.
    root
        The folder that paths of images are relative to.
    """
    data, test = _parts_of_splits(data, test)
    return TableInMemory(
        as_table(data),
        partition,
        None if test is None else as_table(test, "table: the test table"),
        str(root),
        target=target,
        owner=owner,
        domain=(domain,) if isinstance(domain, str) else None if domain is None else tuple(domain),
        inputs=None if inputs is None else tuple(inputs),
        image=image,
        size=size,
        channels=channels,
        standardize=standardize,
        classes=None if classes is None else tuple(classes),
        values=values,
        missing=missing,
        clients=clients,
        split=split,
        pool=pool,
        seed=seed,
    )


def _parts_of_splits(data: Any, test: Any) -> tuple[Any, Any]:
    """Return the splits "train" and "test" of a dict of data sets of Hugging Face."""
    if isinstance(data, Mapping) and all(hasattr(part, "column_names") for part in data.values()):
        return data["train"], data.get("test") if test is None else test
    return data, test
