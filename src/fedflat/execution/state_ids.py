"""Which states count where clients keep them: the server knows only ids.

A state has the id of the request that made it. Ids of a round are staged and count from its end
on, so a round that was broken off leaves nothing behind. A checkpoint has the ids that count;
clients keep those that a checkpoint names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fedflat.core.json_schema import check
from fedflat.files import Damaged, parse_json

ENTRY = "state_ids"
"""The entry in a checkpoint's table of client states: JSON, client to id, as bytes."""


class StateIds:
    """The id of each client's state, for requests and checkpoints.

    >>> ids = StateIds()
    >>> ids.made("0/1/7")
    >>> ids.stage(["0/1/7"], [7])
    >>> ids.commit()
    >>> ids.current(7), ids.keep(7)
    ('0/1/7', ('0/1/7',))
    """

    def __init__(self) -> None:
        self._kept: dict[int, str] = {}
        self._staged: dict[int, str] = {}
        self._made: set[str] = set()
        self._named: dict[int, dict[int, str]] = {}
        """What the checkpoint of each round names."""

    def __len__(self) -> int:
        """How many clients have a state that counts."""
        return len(self._kept)

    def current(self, client: int) -> str | None:
        """The id of the state that counts for the client's next request, None if it has none."""
        return self._staged.get(client) or self._kept.get(client)

    def keep(self, client: int) -> tuple[str, ...]:
        """The ids of all states that the client must keep for a server that starts again."""
        named = (ids[client] for ids in self._named.values() if client in ids)
        kept = [self._kept[client]] if client in self._kept else []
        return tuple(dict.fromkeys([*named, *kept]))

    def made(self, request: str) -> None:
        """The client has made a new state in this request."""
        self._made.add(request)

    def stage(self, requests: Sequence[str], clients: Sequence[int]) -> None:
        """The states that these requests have made count when the round is done."""
        for request, client in zip(requests, clients, strict=True):
            if request in self._made:
                self._staged[client] = request

    def commit(self) -> None:
        """The round is done."""
        self._kept |= self._staged
        self.discard()

    def discard(self) -> None:
        """The round was broken off."""
        self._staged, self._made = {}, set()

    def table(self, round: int) -> dict[str, Tensor]:
        """The ids that count, for the checkpoint of ``round``; empty if there are none."""
        if not self._kept:
            return {}
        self._named[round] = dict(self._kept)
        text = json.dumps(self._kept).encode()
        return {ENTRY: torch.frombuffer(bytearray(text), dtype=torch.uint8)}

    def release(self, oldest: int) -> None:
        """The checkpoints of rounds before ``oldest`` are gone."""
        self._named = {round: ids for round, ids in self._named.items() if round >= oldest}

    def restore(self, tables: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Go on from the newest of these checkpoints' tables."""
        self.discard()
        named = {round: _ids(table[ENTRY]) for round, table in tables.items() if ENTRY in table}
        self._named = named
        self._kept = dict(named.get(max(tables), {}))


def _ids(entry: Tensor) -> dict[int, str]:
    if entry.dtype != torch.uint8:
        raise Damaged(f"the ids of states must be bytes, found {entry.dtype}")
    found = parse_json(entry.numpy().tobytes())
    check(found, {"*": str})
    if not all(client.isdecimal() for client in found):
        raise Damaged("the ids of states must be those of clients")
    return {int(client): id for client, id in found.items()}
