"""Star: one model at the server; every selected client trains it and replies to the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedflat.client.piece import Piece
from fedflat.composition.method import Method
from fedflat.registry.specs import register
from fedflat.topologies.topology import Topology


@dataclass(frozen=True, repr=False)
class Star(Topology):
    """One model at the server. Every client of the cohort receives it and replies."""

    key = "star"

    def refuse(self, method: Method, pieces: Sequence[Piece]) -> None:
        """Accept every method."""


star = register("topology", "star")(Star)
