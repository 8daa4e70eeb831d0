"""Clusters of like-looking clients, and test images that find the one they look like: LADD's
server.

    style_clusters()                        a model for each cluster, which shares all but its head's convolutions
    style_clusters(shared="nothing")        a federation for each cluster
    style_clusters(by_style(fewest=2))      as few as two clusters
    ladd("cls"), ladd("all")                the method: these clusters, and `self_training`

What clusters share and how it is averaged is said in `clusters`. Each test image is judged by the
model of the cluster whose mean style is nearest to its own: these scores stand under "routed", and
are what the run reports. The model that stands for all is the plain mean of those that were asked
in the last round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from fedflat.composition.method import Method, method
from fedflat.core.flat import Model, mean_model
from fedflat.core.schedules import Scalar
from fedflat.data.examples import ClientData
from fedflat.errors import choice
from fedflat.methods.ladd import SelfTraining, Teaching, self_training
from fedflat.registry.specs import register
from fedflat.tasks.pseudo_labels import SHARE, UNSURE
from fedflat.topologies.clusters import ALL, NOTHING, TRUNK, Clusters
from fedflat.topologies.groupings.by_style import ByStyle
from fedflat.topologies.groupings.grouping import Grouping
from fedflat.topologies.population import ClientPopulation

CLS = "cls"
SHARED = {CLS: TRUNK, "all": NOTHING, "nothing": ALL}
"""What clusters of LADD share, by what is their own."""


@dataclass(frozen=True, repr=False)
class StyleClusterTopology(Clusters):
    """A model for each group of clients; with ``by_style`` each test image is judged by its nearest
    group's."""

    key = "style_clusters"

    groups: int | Grouping = ByStyle()
    shared: str | tuple[str, ...] = TRUNK

    @property
    def has_center(self) -> bool:
        """A mean is looked at beside the clusters' own models, whatever they share."""
        return True

    def center(
        self, population: ClientPopulation, done: int, models: Mapping[str, Model]
    ) -> Model | None:
        """The plain mean over the clusters of the last round; before the first, of all."""
        seen = self.select(population, done - 1) if done else models
        return mean_model((models[name], 1.0) for name in models if name in seen)

    def route(self, population: ClientPopulation, data: ClientData) -> Tensor | None:
        """The place of the slot whose clients look most like each image; None where clusters are
        not by style."""
        if not isinstance(self.groups, ByStyle):
            return None
        return self.groups.nearest(
            population.descriptions_by(self.groups.psi), list(self.slots(population).values()), data
        )


style_clusters = register("topology", "style_clusters")(StyleClusterTopology)


@method
def ladd(
    parts: str = CLS,
    kd: Scalar = SelfTraining.kd,
    omega: int = Teaching.omega,
    t_start: int | float | None = Teaching.t_start,
    rule: str = SelfTraining.rule,
    mask: bool = SelfTraining.mask,
    sure: float = UNSURE,
    share: float = SHARE,
    groups: int | Grouping = StyleClusterTopology.groups,
) -> Method:
    """Clusters of clients that look alike teach themselves without labels (Shenaj et al., WACV
    2023).

    ``parts`` of the model belong to a cluster: the convolutions of the head ("cls"), everything
    ("all") or "nothing".
    """
    choice("ladd", "parts", parts, SHARED)
    taught = self_training(kd, omega, t_start, rule, mask, sure, share)
    return replace(taught, topology=StyleClusterTopology(groups, SHARED[parts]))
