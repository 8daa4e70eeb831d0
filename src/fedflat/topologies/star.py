"""Star: one model at the server; every selected client trains it and replies to the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedflat.client.piece import Piece
from fedflat.composition.method import Method
from fedflat.registry.specs import register
from fedflat.server.client_selection import Selection
from fedflat.topologies.population import ClientPopulation
from fedflat.topologies.topology import SERVER, Topology


@dataclass(frozen=True, repr=False)
class Star(Topology):
    """One model at the server. Every client of the cohort receives it and replies."""

    key = "star"

    def select(self, population: ClientPopulation, t: int) -> Selection:
        """Return the cohort as chains of one client."""
        return {SERVER: [(client,) for client in population.draw(t)]}

    def refuse(self, method: Method, pieces: Sequence[Piece]) -> None:
        """Accept every method."""


star = register("topology", "star")(Star)
