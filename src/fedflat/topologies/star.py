"""The star: one model at the server, and everybody who is asked talks to the server alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedflat.client.piece import Piece
from fedflat.composition.method import Method
from fedflat.registry.specs import register
from fedflat.topologies.population import ClientPopulation
from fedflat.topologies.topology import SERVER, Selection, Topology


@dataclass(frozen=True, repr=False)
class Star(Topology):
    """One model at the server; every client of the cohort is sent it and replies."""

    key = "star"

    def select(self, population: ClientPopulation, t: int) -> Selection:
        """The cohort, each client by itself."""
        return {SERVER: [(client,) for client in population.draw(t)]}

    def refuse(self, method: Method, pieces: Sequence[Piece]) -> None:
        """Nothing: methods are made for it."""


star = register("topology", "star")(Star)
