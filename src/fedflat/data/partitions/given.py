"""Clients that the data or a file name: the owners of examples, or the lists of a JSON file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedflat.data.partitions.partition import Index, Partition
from fedflat.errors import DataError, SettingError, shown
from fedflat.files import Damaged, parse_json, read_bytes, reason
from fedflat.registry.specs import register


@dataclass(frozen=True, repr=False)
class ByUser(Partition):
    """One client for each owner of examples, in the order of their ids; ``clients`` is ignored."""

    by_label = False

    def assign(
        self,
        labels: Index,
        clients: int,
        rng: np.random.Generator,
        *,
        coarse: Index | None = None,
        users: Index | None = None,
    ) -> list[Index]:
        if users is None:
            raise SettingError(
                "by_user: the examples of this data set have no owners. Use another partition, or "
                "tensors(..., users=ids)."
            )
        if len(users) != len(labels):
            raise SettingError(
                f"by_user: there must be an owner for each of the {len(labels)} examples, found "
                f"{len(users)}."
            )
        order = np.argsort(users, kind="stable")
        _, first = np.unique(users[order], return_index=True)
        return np.split(order, first[1:])


by_user = register("partition", "by_user")(ByUser)


@dataclass(frozen=True, repr=False)
class FromFile(Partition):
    """The clients listed in a JSON file.

    The file holds a list of lists of positions, or an object from client to such a list. An object
    with ``"user_data"`` is also accepted: ``{"user_data": {client: {"x": ["img_17_label_6.png",
    ...]}}}``, the layout of the CIFAR splits released with FedSAM. Position and label are read from
    the names, and the label is compared. Numbered clients keep the order of their numbers. Examples
    may be left out or repeated.

    path
        Path of the JSON file.
    """

    path: str

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path or "\0" in self.path:
            raise SettingError(
                "from_file: the path of a JSON file is needed, in quotes, found "
                f"{shown(self.path)}."
            )

    def assign(
        self,
        labels: Index,
        clients: int,
        rng: np.random.Generator,
        *,
        coarse: Index | None = None,
        users: Index | None = None,
    ) -> list[Index]:
        lists = _lists(self.path)
        if len(lists) != clients:
            raise SettingError(
                f"from_file: {self.path} has {len(lists)} clients, not {clients}. Set "
                f"clients={len(lists)}."
            )
        return [_positions(f"{self.path}: client {name!r}", part, labels) for name, part in lists]


def _lists(path: str) -> list[tuple[str, Any]]:
    try:
        content = parse_json(read_bytes(Path(os.path.expanduser(path))))
    except OSError as error:
        raise DataError(
            f"from_file: cannot read {path!r}: {reason(error)}. Give a JSON file."
        ) from None
    except Damaged as error:
        raise DataError(f"from_file: {path!r} is not JSON: {error}.") from None
    if isinstance(content, dict):
        content = content.get("user_data", content)
    if isinstance(content, dict):
        names: Iterable[str] = content
        if all(re.fullmatch(r"\d+", name) for name in content):
            names = sorted(content, key=int)
        return [(name, content[name]) for name in names]
    if isinstance(content, list):
        return [(str(k), part) for k, part in enumerate(content)]
    raise DataError(
        f"from_file: {path} must hold a list of lists of positions, found {type(content).__name__}."
    )


def _positions(where: str, part: object, labels: Index) -> Index:
    if isinstance(part, dict):
        part = part.get("x")
    if not isinstance(part, list) or not part:
        raise DataError(
            f"{where} must have a list of at least one position, found {str(part)[:40]}."
        )
    if isinstance(part[0], str):
        part = _from_names(where, part, labels)
    for k in part:
        if type(k) is not int:
            raise DataError(f"{where}: positions must be whole numbers, found {k!r}.")
        if not 0 <= k < len(labels):
            raise DataError(
                f"{where}: positions must be from 0 to {len(labels) - 1}, found {k}. Is it for "
                "another set?"
            )
    return np.array(part, np.int64)


def _from_names(where: str, names: Sequence[Any], labels: Index) -> list[int]:
    positions = []
    for name in names:
        match = re.fullmatch(r"img_(\d+)_label_(\d+)\.png", str(name))
        if not match:
            raise DataError(f"{where}: names must look like 'img_17_label_6.png', found {name!r}.")
        k, label = map(int, match.groups())
        if k < len(labels) and labels[k] != label:
            raise DataError(
                f"{where}: {name} must have the label it has in this data set, {labels[k]}. The "
                "file belongs to another set, or to another order of its images."
            )
        positions.append(k)
    return positions


from_file = register("partition", "from_file")(FromFile)
