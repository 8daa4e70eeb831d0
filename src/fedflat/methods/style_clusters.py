"""LADD's server: clusters of clients with similar images, to which test images are routed.

Shenaj et al., Learning Across Domains and Devices: Style-Driven Source-Free Domain Adaptation in
Clustered Federated Learning, WACV 2023, arXiv:2210.02326.

    style_clusters()                      a model per cluster; only the head's convolutions differ
    style_clusters(shared="nothing")      a separate federation for each cluster
    style_clusters(by_style(fewest=2))    as few as two clusters
    ladd("cls"), ladd("all")              the method: these clusters, and `self_training`

`clusters` has the averaging of shared parts. Each test image is evaluated by the model of the
cluster whose mean style is nearest to its own. These scores are called "routed" and are what the
run reports. The model that represents all clusters is the plain mean of those that stepped in the
last round.
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
from fedflat.topologies.topology import ClientPopulation

CLS = "cls"
SHARED = {CLS: TRUNK, "all": NOTHING, "nothing": ALL}
"""What clusters of LADD share, by the parts that are their own."""


@dataclass(frozen=True, repr=False)
class StyleClusterTopology(Clusters):
    """A model for each group of clients.

    With ``by_style`` each test image is evaluated by its nearest group's model.

    groups
        Number of groups, or a grouping of clients.
    shared
        Names of the layers that all groups share.
    draw
        How clients are selected, as in ``clusters``.
    """

    key = "style_clusters"

    groups: int | Grouping = ByStyle()
    shared: str | tuple[str, ...] = TRUNK

    @property
    def has_center(self) -> bool:
        """True: a mean is evaluated beside the clusters' own models."""
        return True

    def center(
        self, population: ClientPopulation, done: int, models: Mapping[str, Model]
    ) -> Model | None:
        """Return the plain mean over the clusters of the last round.

        Before the first round it is that of all clusters.
        """
        stepped = self.select(population, done - 1) if done else models
        return mean_model((models[name], 1.0) for name in models if name in stepped)

    def route(self, population: ClientPopulation, data: ClientData) -> Tensor | None:
        """Return the index of the slot nearest to each image. None if clusters are not by style."""
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
    """Clusters of similar clients that train without labels (Shenaj et al., WACV 2023).

    ``parts`` of the model belong to a cluster: the convolutions of the head ("cls"), everything
    ("all") or "nothing".
    """
    choice("ladd", "parts", parts, SHARED)
    training = self_training(kd, omega, t_start, rule, mask, sure, share)
    return replace(training, topology=StyleClusterTopology(groups, SHARED[parts]))
