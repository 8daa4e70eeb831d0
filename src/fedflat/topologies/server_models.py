"""The models of a server by slot and by name, and which of them a run reports.

A run reports its last average; without one, the server's model. If the server has several models,
it reports the one that stands for all of them (`ServerModels.center`), and beside it each of them
under the name of its slot, if the topology reports slots. If no model stands for all, the reported
model is that of the slot with the most examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from torch import Tensor

from fedflat.core.flat import Model
from fedflat.data.examples import ClientData
from fedflat.errors import FedflatError, shown
from fedflat.server.averaging import AverageState, ModelAverage, RunInfo
from fedflat.server.client_selection import Selection
from fedflat.server.piece import SelectionInfo
from fedflat.server.step import StepResult
from fedflat.topologies.topology import SERVER, ClientPopulation, Topology


@dataclass(frozen=True)
class ServerModels:
    """The models of a server, as a topology arranges them, and their averages."""

    topology: Topology
    population: ClientPopulation
    averages: Sequence[ModelAverage] = ()

    @cached_property
    def slots(self) -> Mapping[str, Sequence[int]]:
        """The clients of each slot."""
        return self.topology.slots(self.population)

    @property
    def groups_known(self) -> bool:
        """Whether clients have computed all descriptions that the topology needs."""
        return all(one in self.population.descriptions for one in self.topology.describers)

    def expected_clients(self) -> int:
        """About how many client trainings the run has; by the sampler if groups are unknown."""
        if self.groups_known:
            return self.topology.expected_clients(self.population)
        return self.population.sampler.expected_clients(self.population.rounds)

    def parallel_clients(self) -> int:
        """About how many clients can train at once; by the sampler if groups are unknown."""
        if self.groups_known:
            return self.topology.parallel_clients(self.population)
        return self.population.sampler.smallest(self.population.rounds)

    @cached_property
    def share_clients(self) -> bool:
        """Whether a client may be asked by several slots."""
        return sum(map(len, self.slots.values())) > self.population.n_clients

    @cached_property
    def info(self) -> RunInfo:
        """What averages know about the run."""
        clients = self.population
        return RunInfo(clients.rounds, clients.n_clients, clients.layout)

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
        chains = list(chain.from_iterable(selection.values()))
        longest = max(map(len, chains), default=0)
        clients = list(chain.from_iterable(chains if longest == 1 else map(set, chains)))
        unknown = set(selection) - set(self.slots)
        if (
            unknown
            or not clients
            or len(set(clients)) < len(clients)
            or not all(map(all, selection.values()))
        ):
            raise FedflatError(
                f"{self.topology} must ask different clients in round {t + 1}, from slots among "
                f"{', '.join(self.slots)}, found {shown(selection)}."
            )
        if longest > 1 and not self.topology.has_chains:
            raise FedflatError(
                f"{self.topology} selects a chain of several clients in round {t + 1}, but its "
                f"has_chains is False, found {shown(selection)}. Set has_chains to True."
            )
        return selection

    def selection_info(self, t: int) -> SelectionInfo:
        """How the clients of round ``t`` are selected.

        Who is online in a deployment, and the seed, are known to all: such cohorts are "given".
        """
        sampler, seed = self.population.sampler, self.population.seed
        if sampler.cohorts is not None:
            return SelectionInfo(seed, len(sampler.cohorts[t]), "given")
        if self.population.online(t) is not None:
            return SelectionInfo(seed, sampler.clients, "given")
        return SelectionInfo(seed, sampler.clients, sampler.kind or "uniform")

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

    def by_name(
        self, done: int, models: Mapping[str, Model], averages: Mapping[str, AverageState]
    ) -> dict[str, Model]:
        """The server's models and the averages that have begun, the reported one last."""
        center = self.center(done, models)
        named = {slot: models[slot] for slot in self.reported_slots}
        if center is None:
            examples = self.examples()
            largest = max(named, key=lambda slot: examples[slot])
            return {
                **{slot: model for slot, model in named.items() if slot != largest},
                largest: named[largest],
            }
        named[SERVER] = center
        for average in self.averages:
            params = average.params(averages[average.key], self.info, center.params)
            if params is not None:
                named[average.key] = replace(center, params=params)
        return named

    def examples(self) -> dict[str, int]:
        """Training examples of each slot's clients."""
        sizes = self.population.sizes()
        return {
            slot: sum(sizes[client] for client in clients) for slot, clients in self.slots.items()
        }

    def route(self, data: ClientData) -> Tensor | None:
        """For each test example the place of the slot that predicts it; None: all slots do."""
        if id(data) not in self._routes:
            self._routes[id(data)] = self.topology.route(self.population, data)
        return self._routes[id(data)]

    @cached_property
    def _routes(self) -> dict[int, Tensor | None]:
        return {}
