"""Who is with whom in a run, and what they hold: groups.json, so that groups can be drawn without
the data.

    {"run": ..., "by": "greedy(psi='labels')", "clients": 4, "groups": [[0, 3], [1, 2]], "counts": [[80, 15], ...],
     "digest": ...}

``counts`` has how many examples of each class each client trains on, client by client; it is null
where examples have no class each, or there are too many clients to look at. It is what a simulation
knows, not what a server is told. ``run`` is the identity of the run, ``digest`` that of the file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedflat.core.json_schema import check
from fedflat.experiments.run_folder.signed import verified, write_signed
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
    """Clients in groups."""

    by: str
    """The grouping, as it was said."""
    groups: tuple[tuple[int, ...], ...]
    counts: tuple[tuple[int, ...], ...] | None
    """Examples of each class, client by client."""

    @property
    def clients(self) -> int:
        """How many there are."""
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
        """For a file, or a page."""
        return {
            "by": self.by,
            "clients": self.clients,
            "groups": self.groups,
            "counts": self.counts,
        }


def write_groups(folder: Path, identity: str, groups: Grouped) -> None:
    """Write them into a run folder."""
    write_signed(folder / GROUPS, {"run": identity, **groups.as_json()})


def damaged_groups(folder: Path, identity: str) -> bool:
    """Whether a run folder has groups that cannot be read."""
    try:
        read_groups(folder, identity)
    except Damaged:
        return True
    return False


def read_groups(folder: Path, identity: str) -> Grouped | None:
    """Those of a run folder, if it has any; `Damaged` if they cannot be its own."""
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
