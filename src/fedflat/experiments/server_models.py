"""The server's models: which clients each of them asks, how models merge, which one is reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from fedflat.core.flat import Model
from fedflat.data.examples import ClientData
from fedflat.errors import FedflatError, shown
from fedflat.server.piece import StepResult
from fedflat.topologies.population import ClientPopulation
from fedflat.topologies.topology import Selection, Topology


@dataclass(frozen=True)
class ServerModels:
    """The slots of a server, one for each of its models, as a topology arranges them."""

    topology: Topology
    population: ClientPopulation

    @cached_property
    def slots(self) -> Mapping[str, Sequence[int]]:
        """The clients of each slot."""
        return self.topology.slots(self.population)

    @cached_property
    def share_clients(self) -> bool:
        """Whether a client may be asked by several slots."""
        return sum(map(len, self.slots.values())) > self.population.n_clients

    @property
    def reported_slots(self) -> Mapping[str, Sequence[int]]:
        """The clients of each slot whose model is evaluated and written on its own."""
        return self.slots if len(self.slots) > 1 and self.topology.reports_slots else {}

    def select(self, t: int) -> Selection:
        """The chains of clients that each slot asks in round ``t``.

        Raises an error if the topology selects no client, a client twice, an unknown slot, or a
        chain of several clients where it declares that it has no chains.
        """
        selection = self.topology.select(self.population, t)
        chains = [chain for chains in selection.values() for chain in chains]
        clients = [client for chain in chains for client in set(chain)]
        unknown = set(selection) - set(self.slots)
        if (
            unknown
            or not clients
            or len(set(clients)) < len(clients)
            or not all(map(all, selection.values()))
        ):
            raise FedflatError(
                f"{self.topology} must ask different clients in round {t}, from slots among "
                f"{', '.join(self.slots)}, found {shown(selection)}."
            )
        if not self.topology.has_chains and any(len(chain) > 1 for chain in chains):
            raise FedflatError(
                f"{self.topology} selects a chain of several clients in round {t}, but its "
                f"has_chains is False, found {shown(selection)}. Set has_chains to True."
            )
        return selection

    def merge(
        self, t: int, models: Mapping[str, Model], steps: Mapping[str, StepResult]
    ) -> dict[str, Model]:
        """The models after round ``t``, in which some slots made a step."""
        new = {slot: one.model for slot, one in steps.items()}
        weights = {slot: one.replies.weight for slot, one in steps.items()}
        return self.topology.merge(self.population, t, {**models, **new}, weights)

    def center(self, done: int, models: Mapping[str, Model]) -> Model | None:
        """The one model that stands for all slots after ``done`` rounds, if there is one."""
        return self.topology.center(self.population, done, models)

    def center_params(self, done: int, models: Mapping[str, Model]) -> Tensor:
        """The parameters of `center`, which must exist."""
        center = self.center(done, models)
        assert center is not None, "averages of no model"
        return center.params

    def route(self, data: ClientData) -> Tensor | None:
        """For each test example the place of the slot that predicts it; None: all slots do."""
        if id(data) not in self._routes:
            self._routes[id(data)] = self.topology.route(self.population, data)
        return self._routes[id(data)]

    @cached_property
    def _routes(self) -> dict[int, Tensor | None]:
        return {}
