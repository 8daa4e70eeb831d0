"""``groups.json``: the groups of clients in a run, and the classes that each client holds, so that
groups can be shown without the data.

    {"run": ..., "by": "greedy(psi='labels')", "clients": 4, "groups": [[0, 3], [1, 2]], "counts":
    [[80, 15], ...],
     "digest": ...}

``counts`` has the number of examples of each class, client by client. It is null if examples have
no class, or if there are too many clients. A simulation knows it; a server would not. ``run`` is
the identity of the run, ``digest`` that of the file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedflat.core.json_schema import check
from fedflat.experiments.run_folder.schema import verified, write_signed
from fedflat.files import Damaged, read_json

GROUPS = "groups.json"
SCHEMA = {
    "run": str,
    "by": str,
    "clients": int,
    "groups": [[int]],
    "counts": ([[int]], None),
    "digest": str,
}


@dataclass(frozen=True)
class Grouped:
    by: str
    """The text of the grouping."""
    groups: tuple[tuple[int, ...], ...]
    counts: tuple[tuple[int, ...], ...] | None
    """Examples of each class, client by client."""

    @property
    def clients(self) -> int:
        return sum(map(len, self.groups))

    @property
    def together(self) -> tuple[tuple[int, ...], ...] | None:
        """Examples of each class, group by group."""
        if self.counts is None:
            return None
        own = self.counts
        return tuple(
            tuple(map(sum, zip(*(own[client] for client in group), strict=True)))
            for group in self.groups
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "by": self.by,
            "clients": self.clients,
            "groups": self.groups,
            "counts": self.counts,
        }


def write_groups(folder: Path, identity: str, groups: Grouped) -> None:
    write_signed(folder / GROUPS, {"run": identity, **groups.as_json()})


def damaged_groups(folder: Path, identity: str) -> bool:
    """Whether a run folder has groups that cannot be read."""
    try:
        read_groups(folder, identity)
    except Damaged:
        return True
    return False


def read_groups(folder: Path, identity: str) -> Grouped | None:
    """The groups of a run folder, or None; `Damaged` if they are not those of the run."""
    if not os.path.lexists(folder / GROUPS):
        return None
    found = read_json(folder / GROUPS)
    check(found, SCHEMA)
    found = verified(found)
    members = sorted(client for group in found["groups"] for client in group)
    if (
        found["run"] != identity
        or not all(found["groups"])
        or members != list(range(found["clients"]))
    ):
        raise Damaged("they are not those of this run")
    counts = found["counts"]
    if counts is not None and (
        len(counts) != len(members) or len(set(map(len, counts))) != 1 or not counts[0]
    ):
        raise Damaged("its counts are not those of its clients")
    return Grouped(
        found["by"],
        tuple(map(tuple, found["groups"])),
        None if counts is None else tuple(map(tuple, counts)),
    )
