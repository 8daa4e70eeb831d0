"""Hierarchy: clusters train separately and merge every few rounds (H-FL).

    round      each cluster c: the server's step on its own clients' replies, from its model w_c
    every T    w = sum_c (N_c / N) w_c,  w_c <- w for all c;  N_c the examples of cluster c

Between two merges the same mean w is reported, and model averages use it. The server pieces of each
cluster keep their state over a merge. With every=1 it is FedAvg with the weights N_c / N of the
clusters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedflat.core.flat import Model
from fedflat.errors import SettingError, number
from fedflat.registry.specs import register
from fedflat.topologies.clusters import Clustered
from fedflat.topologies.topology import ClientPopulation


@dataclass(frozen=True, repr=False)
class Hierarchy(Clustered):
    """Clusters with a model each, which merge every few rounds.

    Clients are selected in each cluster.

    groups
        Number of clusters, or a grouping of clients.
    every
        Number of rounds between two merges.
    draw
        How clients are selected: in each cluster, or by one of the ways of ``clusters``.
    """

    key = "hierarchy"

    every: int = 5
    draw: str = field(default="each", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        number("hierarchy", "every", self.every, low=1, whole=True)

    @property
    def merges_models(self) -> bool:
        return True

    def merges_after(self, population: ClientPopulation, t: int) -> bool:
        """Return True if models merge after round ``t``."""
        return (t + 1) % self.every == 0

    def check(self, population: ClientPopulation) -> None:
        """Refuse clusters that never merge."""
        super().check(population)
        if self.every > population.rounds:
            raise SettingError(
                f"{self} merges its clusters every {self.every} rounds, but the run has only "
                f"{population.rounds}: they would never merge. Let them merge more often (every, "
                "in hfl T_c), make more rounds, or use clusters(...)."
            )

    def merge(
        self,
        population: ClientPopulation,
        t: int,
        models: Mapping[str, Model],
        weights: Mapping[str, float],
    ) -> dict[str, Model]:
        """Replace all models by their mean, in the rounds in which they merge."""
        if not self.merges_after(population, t):
            return dict(models)
        centre = self.center(population, t + 1, models)
        assert centre is not None
        return dict.fromkeys(models, centre)


hierarchy = register("topology", "hierarchy")(Hierarchy)
