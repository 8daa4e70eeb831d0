"""A hierarchy: clusters that train by themselves and meet every so many rounds (H-FL).

    round      each cluster c: the server's step on the replies of its own clients, from its own model w_c
    every T    w = sum_c (N_c / N) w_c,  w_c <- w for all c;  N_c the examples of all clients of cluster c

Between two meetings the same mean w is what is reported, and what shadows are averages of. The
server's pieces of each cluster keep their memory over a meeting. With every=1 it is FedAvg with the
weights N_c / N of the clusters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedflat.core.flat import Model
from fedflat.errors import SettingError, number
from fedflat.registry.specs import register
from fedflat.topologies.clusters import Clustered
from fedflat.topologies.population import ClientPopulation


@dataclass(frozen=True, repr=False)
class Hierarchy(Clustered):
    """Clusters with a model each, which become their mean every so many rounds; clients are drawn
    in each cluster."""

    key = "hierarchy"

    every: int = 5
    draw: str = field(default="each", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        number("hierarchy", "every", self.every, low=1, whole=True)

    @property
    def merges_models(self) -> bool:
        """When they meet."""
        return True

    def merges_after(self, population: ClientPopulation, t: int) -> bool:
        """In the rounds after which models become their mean."""
        return (t + 1) % self.every == 0

    def check(self, population: ClientPopulation) -> None:
        """Refuse clusters that never meet."""
        super().check(population)
        if self.every > population.rounds:
            raise SettingError(
                f"{self} brings its clusters together every {self.every} rounds, but the run has only "
                f"{population.rounds}: they would never meet. Let them meet more often (every, in hfl T_c), make more "
                "rounds, or use clusters(...)."
            )

    def merge(
        self,
        population: ClientPopulation,
        t: int,
        models: Mapping[str, Model],
        weights: Mapping[str, float],
    ) -> dict[str, Model]:
        """All become the mean, in the rounds in which they meet."""
        if not self.merges_after(population, t):
            return dict(models)
        centre = self.center(population, t + 1, models)
        assert centre is not None
        return dict.fromkeys(models, centre)


hierarchy = register("topology", "hierarchy")(Hierarchy)
