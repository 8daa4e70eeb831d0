"""What clients remember between visits, kept by the simulation on their behalf.

Changes of a round are staged and taken over together at its end, so that a round which is broken off
leaves nothing behind. Only clients that have been seen cost anything.
"""

from __future__ import annotations

from collections.abc import Mapping

from fedflat.client.piece import Memory


class ClientStates:
    """Memories in RAM, by client."""

    def __init__(self, kept: Mapping[int, Memory] | None = None) -> None:
        self.kept: dict[int, Memory] = dict(kept or {})
        self._staged: dict[int, Memory] = {}

    def memory(self, client: int) -> Memory:
        """What ``client`` remembers, as of its last visit in this round or before."""
        return self._staged.get(client) or self.kept.get(client, {})

    def stage(self, client: int, memory: Memory) -> None:
        """Take a visit's memory over when the round is done."""
        if memory:
            self._staged[client] = memory

    def keep(self) -> None:
        """The round is done."""
        self.kept.update(self._staged)
        self._staged = {}

    def drop(self) -> None:
        """The round was broken off."""
        self._staged = {}

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors kept."""
        return sum(
            t.numel() * t.element_size()
            for memory in self.kept.values()
            for named in memory.values()
            for t in named.values()
        )
