"""Clusters: each has its own model and its own server pieces at the server; parts may be shared.

    clusters(3)                        three separate federations, in random groups
    clusters(3, shared="features")     a head for each cluster on features that all clusters train
    clusters(3, shared=["conv1"])      the layer conv1 is shared, all else belongs to a cluster
    clusters(3, shared="trunk")        all is shared except the convolutions of the mask head

    cluster c  w_c <- the server's step on the replies of its own clients; without any, no change
    shared     Phi <- sum_c W_c Phi_c / sum_c W_c,  W_c the weight of cluster c's replies in this
               round

For plain averaging that is the mean over the whole cohort. Running statistics belong to their
layer.

The sampler selects from all clients (draw="together"), or in each cluster (draw="each"). A method
has its own state in each cluster, so every method works here unless parts are shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedflat.core.flat import Layout, Model, mean_model
from fedflat.errors import SettingError, choice, shown
from fedflat.registry.specs import register
from fedflat.server.client_selection import Selection
from fedflat.topologies.groupings.fixed import grouping_of
from fedflat.topologies.groupings.grouping import Grouping
from fedflat.topologies.topology import ClientPopulation, Topology

NOTHING, FEATURES, CLASSIFIER, TRUNK, ALL = BLOCKS = (
    "nothing",
    "features",
    "classifier",
    "trunk",
    "all",
)


@dataclass(frozen=True, repr=False)
class Clustered(Topology):
    """Base class of topologies with a model for each group of clients."""

    groups: int | Grouping
    draw: str = field(default="together", kw_only=True)

    def __post_init__(self) -> None:
        grouping_of(self.key, self.groups)
        choice(self.key, "draw", self.draw, ["together", "each"])

    def slots(self, population: ClientPopulation) -> Mapping[str, Sequence[int]]:
        """Return a model for each group."""
        found = population.groups(grouping_of(self.key, self.groups))
        return {f"cluster{place}": group for place, group in enumerate(found)}

    def check(self, population: ClientPopulation) -> None:
        """Refuse clusters with fewer clients than are selected in each."""
        slots = self.slots(population)
        if self.draw == "together" or population.sampler.cohorts is not None:
            return super().check(population)
        for name, members in slots.items():
            if population.sampler.clients > len(members):
                raise SettingError(
                    f"{population.sampler.clients} clients a round were asked for, which with "
                    f"{self} are drawn in each cluster, but {name} has only {len(members)}. Use "
                    "fewer clients a round, make fewer clusters, or draw='together' from all "
                    "clients."
                )

    def select(self, population: ClientPopulation, t: int) -> Selection:
        """Return the cohort, each client in its own cluster."""
        slots = self.slots(population)
        if self.draw == "each" and population.sampler.cohorts is None:
            return {
                name: _select_in(population, t, place, slots[name])
                for place, name in enumerate(slots)
            }
        cluster_of = {client: name for name, members in slots.items() for client in members}
        selection: Selection = {name: [] for name in slots}
        for client in population.draw(t):
            selection[cluster_of[client]].append((client,))
        return {name: found for name, found in selection.items() if found}

    def examples(self, population: ClientPopulation) -> dict[str, int]:
        """Return N_c: the number of training examples of each cluster's clients."""
        sizes = population.sizes()
        return {
            name: sum(sizes[client] for client in members)
            for name, members in self.slots(population).items()
        }

    def center(
        self, population: ClientPopulation, done: int, models: Mapping[str, Model]
    ) -> Model | None:
        """Return the mean of all models, weighted by their clients' examples."""
        if not self.has_center:
            return None
        return mean_model((models[name], n) for name, n in self.examples(population).items())

    def smallest_cohort(self, population: ClientPopulation) -> int:
        """Return 1 unless clients are selected in each cluster."""
        return (
            population.sampler.smallest(population.rounds)
            if self.draw == "each" and population.sampler.cohorts is None
            else 1
        )

    def parallel_clients(self, population: ClientPopulation) -> int:
        """Return the clients of one cluster: clusters have their exchanges one after the other."""
        return max(
            self.smallest_cohort(population),
            population.sampler.smallest(population.rounds) // len(self.slots(population)),
        )

    def expected_clients(self, population: ClientPopulation) -> int:
        """Return the number of clients in all rounds, of all clusters."""
        times = (
            len(self.slots(population))
            if self.draw == "each" and population.sampler.cohorts is None
            else 1
        )
        return times * population.sampler.expected_clients(population.rounds)


@dataclass(frozen=True, repr=False)
class Clusters(Clustered):
    """A model for each group of clients. Shared layers are averaged over all clusters."""

    key = "clusters"

    shared: str | tuple[str, ...] = NOTHING

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.shared, str):
            choice(self.key, "shared", self.shared, BLOCKS)
        elif not _is_names(self.shared):
            raise SettingError(
                f"{self.key}: shared must be one of {', '.join(BLOCKS)}, or a list of names of "
                f"layers, found {shown(self.shared)}."
            )

    @property
    def merges_models(self) -> bool:
        return self.shared != NOTHING

    @property
    def has_center(self) -> bool:
        """False if nothing is shared: the mean of unrelated models is not a result."""
        return self.shared != NOTHING or self.groups == 1

    def merges_after(self, population: ClientPopulation, t: int) -> bool:
        """Return True if anything is shared."""
        return self.merges_models

    def check(self, population: ClientPopulation) -> None:
        """Refuse names of layers that the model does not have."""
        super().check(population)
        if not isinstance(self.shared, str):
            for name in self.shared:
                if not any(_within(one, name) for one in population.layout.names):
                    raise SettingError(
                        f"clusters: the model has no layer {name!r} to share. It has "
                        f"{', '.join(population.layout.names)}."
                    )

    def merge(
        self,
        population: ClientPopulation,
        t: int,
        models: Mapping[str, Model],
        weights: Mapping[str, float],
    ) -> dict[str, Model]:
        """Insert the mean of what is shared into every model."""
        if not self.merges_models:
            return dict(models)
        mean = mean_model((models[name], weight) for name, weight in weights.items())
        params, buffers = (mask.to(mean.params.device) for mask in self.common(population.layout))
        return {
            name: Model(
                torch.where(params, mean.params, own.params),
                torch.where(buffers, mean.buffers, own.buffers),
            )
            for name, own in models.items()
        }

    def common(self, layout: Layout) -> tuple[Tensor, Tensor]:
        """Return masks over parameters and buffers of what is shared."""
        sizes = torch.tensor(layout.buffer_sizes, dtype=torch.long)
        buffers = torch.tensor(
            [self._shares(layout, name) for name in layout.buffer_names], dtype=torch.bool
        )
        return layout.where(
            lambda name, shape: self._shares(layout, name)
        ), buffers.repeat_interleave(sizes)

    def _shares(self, layout: Layout, name: str) -> bool:
        if not isinstance(self.shared, str):
            return any(_within(name, layer) for layer in self.shared)
        last = name.rpartition(".")[0] == layout.names[-1].rpartition(".")[0]
        head = name in layout.head
        return {NOTHING: False, FEATURES: not last, CLASSIFIER: last, TRUNK: not head, ALL: True}[
            self.shared
        ]


def _is_names(value: object) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(name, str) for name in value)
    )


def _select_in(
    population: ClientPopulation, t: int, place: int, members: Sequence[int]
) -> list[tuple[int, ...]]:
    def sizes() -> list[int]:
        all_sizes = population.sizes()
        return [all_sizes[client] for client in members]

    return [(members[i],) for i in population.draw_from(t, len(members), sizes, place)]


def _within(name: str, layer: str) -> bool:
    """Whether a parameter or buffer belongs to a layer or to a layer within it."""
    return name == layer or name.startswith(f"{layer}.")


clusters = register("topology", "clusters")(Clusters)
