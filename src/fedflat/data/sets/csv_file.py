"""Rows of a CSV file: numbers, or paths of images.

    csv('wine.csv', target='quality', owner='hospital', standardize=True)
    csv('photos.csv', target='label', image='path', owner='client', size=[32, 32])
    csv('patients.csv', lda(0.5), target='outcome', clients=20, split=0.8)
    csv('scans.csv', image='path', target='label', owner='hospital', domain='scanner', size=[64, 64])

The first line has the names of the columns.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from fedflat.data.partitions.partition import Partition
from fedflat.data.table import DataTable, read_csv
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
