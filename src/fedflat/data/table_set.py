"""Data sets made from tables: which columns are inputs, target and owner."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedflat.data.categories import Categories, are_classes, categories
from fedflat.data.domains import Domains
from fedflat.data.examples import AnyExamples, Examples
from fedflat.data.federation import DataSpec, Federation, PartitionedFederation
from fedflat.data.files.pictures import Picture, check_pillow
from fedflat.data.on_disk import OnDisk
from fedflat.data.partitions.given import ByUser
from fedflat.data.partitions.iid import Iid
from fedflat.data.partitions.partition import Partition
from fedflat.data.splitting import check_cut, federate
from fedflat.data.table import DataTable
from fedflat.errors import DataError, SettingError, choice, flag, number, shown

LARGEST_SIDE = 10_000
"""Most pixels per side after resizing."""


@dataclass(frozen=True)
class TableParts:
    """The training rows and the test rows of a table, in this order, and their roles."""

    inputs: Tensor | list[str]
    """Numbers or images; or the paths of image files."""
    targets: Tensor
    class_names: tuple[str, ...]
    """Empty if targets are values."""
    train: int
    owners: Categories | None
    skipped: int
    """The number of rows that were left out."""
    domains: Domains | None


@dataclass(frozen=True, repr=False)
class TableSet(DataSpec):
    """Base class of data sets that are tables; see `CsvFile` for the fields."""

    _: KW_ONLY
    target: str | None = None
    owner: str | None = None
    domain: tuple[str, ...] | None = None
    inputs: tuple[str, ...] | None = None
    image: str | None = None
    size: tuple[int, int] | None = None
    channels: int = 3
    standardize: bool = False
    classes: tuple[str, ...] | None = None
    values: bool | None = None
    missing: str = "error"
    clients: int | None = None
    split: float | None = None
    pool: bool = False
    seed: int | None = None

    kind = "csv"
    """The name in error messages."""
    partition = None

    def __post_init__(self) -> None:
        given: Any = self.partition
        if given is None:
            given = Iid() if self.owner is None else ByUser()
            object.__setattr__(self, "partition", given)
        check_cut(self.kind, given, self._clients, self.split, self.seed)
        if isinstance(self.domain, str):
            object.__setattr__(self, "domain", (self.domain,))
        for name in ("classes", "inputs", "domain"):
            self._check_names(name, getattr(self, name))
        flag(self.kind, "standardize", self.standardize)
        flag(self.kind, "pool", self.pool)
        if self.pool and self.split is None:
            raise SettingError(
                f"{self.kind}: with pool=True the test set is what clients hold out. Add split=0.8, "
                "or remove pool."
            )
        choice(self.kind, "missing", self.missing, ["error", "skip"])
        if self.size is not None:
            if not isinstance(self.size, list | tuple) or len(self.size) != 2:
                raise SettingError(
                    f"{self.kind}: size must be [height, width], found {shown(self.size)}."
                )
            for side in self.size:
                number(self.kind, "a side of size", side, low=1, high=LARGEST_SIDE, whole=True)
            object.__setattr__(self, "size", tuple(self.size))
        if self.channels not in (1, 3):
            raise SettingError(
                f"{self.kind}: channels must be 1, grey, or 3, colours, found "
                f"{shown(self.channels)}."
            )
        if self.image is not None and (self.standardize or self.inputs):
            raise SettingError(
                f"{self.kind}: with image={shown(self.image)} the inputs are images. Leave inputs "
                "and standardize out."
            )

    def _check_names(self, name: str, given: object) -> None:
        if given is None:
            return
        if not isinstance(given, list | tuple) or not given:
            raise SettingError(
                f"{self.kind}: {name} must be a list such as ['no', 'yes'], found {shown(given)}."
            )
        object.__setattr__(self, name, tuple(map(str, given)))

    @property
    def _clients(self) -> int:
        return 100 if self.clients is None else self.clients

    @abstractmethod
    def tables(self) -> tuple[DataTable, DataTable | None]:
        """The rows, and the test rows if they are a table of their own."""

    @abstractmethod
    def folder(self) -> Path:
        """The folder that paths of images are relative to."""

    @property
    def usual_task(self) -> str:  # type: ignore[override]
        """See `DataSpec.usual_task`: regression if the targets are values."""
        return "classification()" if self.parts().class_names else "regression()"

    def class_names(self) -> tuple[str, ...]:
        """See `DataSpec.class_names`: the values of the target column."""
        return self.parts().class_names

    def column_names(self) -> tuple[str, ...]:
        """See `DataSpec.column_names`; empty if inputs are images."""
        return () if self.image else tuple(self._input_names(self.tables()[0]))

    def client_names(self) -> tuple[str, ...]:
        """See `DataSpec.client_names`: the owners, if each is a client."""
        owners = self.parts().owners
        return owners.names if owners and isinstance(self.partition, ByUser) else ()

    def open(self, seed: int) -> Federation:
        """The federation for this seed or the set's own."""
        parts, seed = self.parts(), seed if self.seed is None else self.seed
        assert isinstance(self.partition, Partition)
        names = self.client_names()
        fed = federate(
            self._examples(parts),
            parts.train,
            self.partition,
            len(names) or self._clients,
            seed,
            split=self.split,
            pool=self.pool,
            users=None if parts.owners is None else parts.owners.codes.numpy(),
        )
        if self.standardize:
            fed = standardized(fed)
        return replace(fed, client_names=names, remark=self._remark(parts))

    def _remark(self, parts: TableParts) -> str:
        if not parts.skipped:
            return ""
        return f"{parts.skipped} rows with missing values are left out"

    def _examples(self, parts: TableParts) -> AnyExamples:
        count = len(parts.class_names)
        if isinstance(parts.inputs, Tensor):
            return Examples(parts.inputs, parts.targets, count, domains=parts.domains)
        check_pillow()
        reader = Picture(self.channels, self.size)
        return OnDisk(tuple(parts.inputs), reader, parts.targets, count, domains=parts.domains)

    def parts(self) -> TableParts:
        """The rows in their roles; computed once for the same tables."""
        tables = self.tables()
        known: Any = self.__dict__.get("_known")
        if known is None or known[0][0] is not tables[0] or known[0][1] is not tables[1]:
            known = tables, self._make_parts(*tables)
            self.__dict__["_known"] = known
        found: TableParts = known[1]
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_known"}

    def __repr__(self) -> str:
        usual = Iid() if self.owner is None else ByUser()
        if self.partition != usual:
            return super().__repr__()
        terse = copy(self)
        object.__setattr__(terse, "partition", None)
        return DataSpec.__repr__(terse)

    def _make_parts(self, table: DataTable, test: DataTable | None) -> TableParts:
        target = self._target(table)
        facets = list(self.domain or ())
        kept = self._kept(table, [target, *([self.owner] if self.owner else []), *facets])
        skipped = len(table) - len(kept)
        table = table.rows(kept)
        if self.pool:
            if test is not None:
                raise SettingError(
                    f"{self.kind}: with pool=True clients hold out the test rows. Leave test out."
                )
            test = table.rows([])
        elif test is None:
            train_rows, test_rows = _every_fifth(table, self.owner)
            table, test = table.rows(train_rows), table.rows(test_rows)
        else:
            used = self._kept(test, [target, *facets])
            skipped, test = skipped + len(test) - len(used), test.rows(used)
        if not len(table) or not (len(test) or self.pool):
            raise DataError(
                f"{table.where} must have rows to train and to test on, at least five, found "
                f"{len(table)} and {len(test)}."
            )
        domains = self._domains(table, test)
        targets, names = self._targets(table, [*table.column(target), *test.column(target)])
        owners = self.owner and categories(table.where, "owner", table.column(self.owner))
        inputs = [self._inputs(one) for one in (table, test) if len(one)]
        both: Any = (
            torch.cat(inputs)  # type: ignore[arg-type]
            if isinstance(inputs[0], Tensor)
            else [path for paths in inputs for path in paths]
        )
        return TableParts(both, targets, names, len(table), owners or None, skipped, domains)

    def _domains(self, table: DataTable, test: DataTable) -> Domains | None:
        if self.domain is None:
            return None
        columns = []
        for name in self.domain:
            found = categories(
                table.where, f"{name} (domain)", [*table.column(name), *test.column(name)]
            )
            columns.append([f"{name}={found.names[code]}" for code in found.codes.tolist()])
        return Domains(self.domain, tuple(zip(*columns, strict=True)))

    def _target(self, table: DataTable) -> str:
        if self.target is not None:
            return self.target
        others = (self.owner, self.image, *(self.domain or ()))
        known = [name for name in table.columns if name not in others]
        if not known:
            raise SettingError(f"{table.where} has no column to predict. Name it: target='...'.")
        return known[-1]

    def _input_names(self, table: DataTable) -> Sequence[str]:
        if self.inputs is not None:
            return self.inputs
        roles = (self._target(table), self.owner, *(self.domain or ()))
        return [name for name in table.columns if name not in roles]

    def _kept(self, table: DataTable, needed: Sequence[str]) -> Sequence[int]:
        if self.missing == "error":
            return range(len(table))
        more = [self.image] if self.image else self._input_names(table)
        return table.complete([*needed, *more])

    def _targets(self, table: DataTable, found: Sequence[Any]) -> tuple[Tensor, tuple[str, ...]]:
        """The targets, and the names of the classes; none if they are values."""
        name = self._target(table)
        known = table.class_names.get(name)
        if self.values or (
            self.values is None
            and known is None
            and self.classes is None
            and not are_classes(found)
        ):
            numbers = DataTable(table.where, {name: found}, header=table.header).numbers([name])
            return numbers, ()
        if known is not None:  # class numbers, whose names are known
            return torch.tensor([int(code) for code in found]), known
        named = categories(table.where, "class", found, self.classes)
        return named.codes, named.names

    def _inputs(self, table: DataTable) -> Tensor | list[str]:
        if self.image is None:
            names = list(self._input_names(table))
            if not names:
                raise DataError(f"{table.where} has no column for inputs besides the target.")
            cells = table.column(names[0])
            if len(names) == 1 and len(cells) and np.ndim(cells[0]) > 0:
                return stacked(table, names[0])
            return table.numbers(names)
        cells = table.column(self.image)
        if len(cells) and not isinstance(cells[0], str | Path):
            return stacked(table, self.image, Picture(self.channels, self.size))
        return [str(self.folder() / str(cell)) for cell in cells]


def standardized(fed: PartitionedFederation) -> PartitionedFederation:
    """The same data with mean 0 and standard deviation 1 in each column of the training examples.

    Only the examples that clients train on count. Columns with one value are only centred.
    """
    train = fed.train
    assert isinstance(train, Examples)
    assert isinstance(fed.test.examples, Examples)
    used = train.inputs.index_select(0, torch.cat(list(fed.parts))).double()
    std, mean = torch.std_mean(used, dim=0, correction=0)
    std = torch.where(std > 0, std, torch.ones_like(std))
    scale: dict[str, Any] = {"mean": tuple(mean.tolist()), "std": tuple(std.tolist())}
    return replace(
        fed,
        train=replace(train, **scale),
        test=replace(fed.test, examples=replace(fed.test.examples, **scale)),
    )


def _every_fifth(table: DataTable, owner: str | None) -> tuple[list[int], list[int]]:
    """Rows to train and to test on: every fifth row, of each owner, is for testing."""
    count: dict[str, int] = {}
    train: list[int] = []
    test: list[int] = []
    for row in range(len(table)):
        key = "" if owner is None else str(table.column(owner)[row])
        count[key] = count.get(key, 0) + 1
        (test if count[key] % 5 == 0 else train).append(row)
    return train, test


def stacked(table: DataTable, name: str, picture: Picture | None = None) -> Tensor:
    """A column of arrays or images, as one tensor."""
    try:
        parts = [
            picture.pixels(cell) if picture and hasattr(cell, "convert") else torch.as_tensor(cell)
            for cell in table.column(name)
        ]
        return torch.stack(parts)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"{table.where}: column {name!r} must have images or arrays of one shape "
            f"({str(error)[:200]}). Resize images: size=[32, 32]."
        ) from None
