"""Tables given in Python: data frames, Hugging Face data sets, columns, rows as dicts.

    table(frame, target='quality', owner='hospital', standardize=True)
    table(load_dataset('cifar10'), target='label', image='img')
    table({'x': [...], 'y': [...]}, target='y')

They have no text for the command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedflat.data.partitions.partition import Partition
from fedflat.data.table import DataTable, as_table
from fedflat.data.table_set import TableSet


@dataclass(frozen=True, repr=False, eq=False)
class TableInMemory(TableSet):
    """See `table`."""

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
