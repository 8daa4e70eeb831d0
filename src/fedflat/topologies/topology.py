"""Base class of topologies: which server model trains on which clients, and how models merge.

A server may hold several models, each in a **slot** with its own state of the server pieces and its
own clients. In a round some slots step, each with an exchange with its chains. In a **chain**
clients train one after the other. The first client receives the slot's model, each other one the
model of the client before it, and the last one replies to the server. In a star every chain has one
client.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import ClassVar

from torch import Tensor

from fedflat.client.instructions import Describer
from fedflat.client.piece import Piece
from fedflat.composition.method import Method
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast, Reply, ReplyBatch
from fedflat.data.examples import ClientData
from fedflat.errors import FedflatError, SettingError, shown
from fedflat.registry.specs import TextSpec
from fedflat.server.client_selection import Chain, Selection
from fedflat.server.piece import SelectionInfo, StepResult
from fedflat.topologies.groupings.fixed import grouping_of
from fedflat.topologies.groupings.grouping import Grouping
from fedflat.topologies.population import ClientPopulation

SERVER = "server"
"""The slot of a server with one model, and the name of the reported model if no average is
reported."""


@dataclass(frozen=True)
class InFlight:
    """A round of an asynchronous topology: replies answer models of earlier rounds."""

    since: Mapping[int, int]
    """Clients whose replies the round uses, in the order of arrival, with the round that each was
    sent its model in."""
    started: Sequence[int]
    """Clients that start in this round."""
    left: Set[int]
    """Rounds whose model some client still trains when this round ends."""
    moment: float
    """Simulated time of the server's step."""


class Topology(TextSpec, ABC):
    """Base class of topologies: a frozen dataclass.

    It has one model at the server; subclasses add `select`.
    """

    key: ClassVar[str]
    """Its name in messages."""

    @property
    def describers(self) -> tuple[Describer, ...]:
        """Descriptions that every client must compute before round 0.

        The default is those of the grouping in ``groups``. `ClientPopulation.descriptions_by`
        returns them.
        """
        groups = getattr(self, "groups", None)
        return groups.describers if isinstance(groups, Grouping) else ()

    @property
    def has_chains(self) -> bool:
        """True if clients train models that other clients have returned."""
        return False

    @property
    def merges_models(self) -> bool:
        """True if a slot's model also changes by other means than its own steps."""
        return False

    @property
    def has_center(self) -> bool:
        """True if one model represents all slots."""
        return True

    @property
    def synchronous(self) -> bool:
        """True if a round uses the replies of the clients selected in it."""
        return True

    @property
    def reports_slots(self) -> bool:
        """True if each slot's model is a result that is evaluated on its own."""
        return True

    def check_before(self, population: ClientPopulation) -> None:
        """Raise `SettingError` for unsuitable clients, before they compute descriptions."""
        groups = getattr(self, "groups", None)
        if isinstance(groups, Grouping):
            groups.possible(population.sizes())

    def check(self, population: ClientPopulation) -> None:
        """Raise `SettingError` for unsuitable clients."""
        population.sampler.check(population.n_clients, population.rounds)

    def slots(self, population: ClientPopulation) -> Mapping[str, Sequence[int]]:
        """Return the server's models by name, with the clients of each."""
        return {SERVER: range(population.n_clients)}

    def superclients(self, population: ClientPopulation) -> Sequence[Chain]:
        """Return groups of clients that train one after the other and stay together, if any."""
        return ()

    def groups_of(self, population: ClientPopulation) -> Sequence[Chain]:
        """Return the groups of clients from the first round on.

        They are the superclients, or the groups of ``groups``.
        """
        groups, found = getattr(self, "groups", None), self.superclients(population)
        return (
            found if found or groups is None else population.groups(grouping_of(self.key, groups))
        )

    @abstractmethod
    def select(self, population: ClientPopulation, t: int) -> Selection:
        """Return the chains of round ``t`` by slot.

        Replies are aggregated in this order, and other slots do not change.
        """

    def in_flight(self, population: ClientPopulation, t: int) -> InFlight | None:
        """Return the state of the schedule in round ``t``; None if the topology is synchronous."""
        return None

    def weigh_reply(
        self, now: Broadcast, sent: Broadcast, reply: Reply | ReplyBatch
    ) -> Reply | ReplyBatch:
        """Return the reply to ``sent`` as the server aggregates it when its model is ``now``."""
        return reply

    def merge(
        self,
        population: ClientPopulation,
        t: int,
        models: Mapping[str, Model],
        weights: Mapping[str, float],
    ) -> dict[str, Model]:
        """Return the models after round ``t``.

        ``weights`` are the total weights of each slot's replies.
        """
        return dict(models)

    def center(
        self, population: ClientPopulation, done: int, models: Mapping[str, Model]
    ) -> Model | None:
        """Return the model that represents all slots after ``done`` rounds.

        It is reported, and model averages use it.
        """
        return next(iter(models.values())) if self.has_center else None

    def merges_after(self, population: ClientPopulation, t: int) -> bool:
        """Return True if slots must wait after round ``t`` until all of them have stepped."""
        return True

    def end_times(self, population: ClientPopulation, t: int) -> float | None:
        """Return the simulated time at which round ``t`` ends.

        None if a round begins when the previous one ends, and waits for its replies.
        """
        return None

    def metrics(self, population: ClientPopulation, t: int) -> dict[str, float]:
        """Return its own measurements in round ``t``, written with each evaluation."""
        return {}

    def route(self, population: ClientPopulation, data: ClientData) -> Tensor | None:
        """Return the index of the slot for each test example.

        None if all models are for all examples.
        """
        return None

    def smallest_cohort(self, population: ClientPopulation) -> int:
        """Return the smallest number of replies that a slot has in a round in which it steps."""
        return population.sampler.smallest(population.rounds)

    def parallel_clients(self, population: ClientPopulation) -> int:
        """Return about how many clients can train at the same time."""
        return self.smallest_cohort(population)

    def expected_clients(self, population: ClientPopulation) -> int:
        """Return about how many client trainings the run has."""
        return population.sampler.expected_clients(population.rounds)

    def refuse(self, method: Method, pieces: Sequence[Piece]) -> None:
        """Raise `SettingError` for a method that cannot be used here.

        ``pieces`` are all client pieces.
        """
        if method.pooled:
            raise SettingError(
                f"centralised training has no clients, so it cannot be used with {self}. Remove "
                "one of them."
            )
        for piece in pieces:
            self._refuse_piece(piece)
        for one in method.reply_listeners:
            if self.has_chains:
                raise SettingError(
                    f"{one} cannot be used with {self}: it needs the model of every client, but "
                    "only the last client of a chain replies. Remove one of them."
                )
        for average in method.averages:
            if not self.has_center:
                raise SettingError(
                    f"{average} cannot be used with {self}: it averages the server's model, but "
                    "there is no one model that represents all clusters. Remove one of them, or "
                    "share a part of the model."
                )

    def _refuse_piece(self, piece: Piece) -> None:
        why = ""
        if self.has_chains and piece.state_vectors:
            why = (
                "it stores a state at each client that refers to the server's model, which a "
                "client in a chain does not receive"
            )
        elif self.has_chains and piece.upload_vectors:
            why = (
                "it sends vectors to the server with every reply, but only the last client of a "
                "chain replies"
            )
        elif self.has_chains and (piece.needs_cohort_order or piece.needs_server_model):
            why = (
                "it must start from the server's model, but in a chain a client starts from the "
                "model of the client before it"
            )
        elif self.merges_models and piece.state_vectors:
            why = (
                "it stores a state at each client that refers to one sequence of models, which "
                "ends when models merge"
            )
        if why:
            raise SettingError(f"{piece} cannot be used with {self}: {why}. Remove one of them.")


@dataclass(frozen=True)
class ServerModels:
    """The slots of a server, one for each of its models, as a topology arranges them."""

    topology: Topology
    population: ClientPopulation

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
                f"{self.topology} must ask different clients in round {t}, from slots among "
                f"{', '.join(self.slots)}, found {shown(selection)}."
            )
        if longest > 1 and not self.topology.has_chains:
            raise FedflatError(
                f"{self.topology} selects a chain of several clients in round {t}, but its "
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

    def route(self, data: ClientData) -> Tensor | None:
        """For each test example the place of the slot that predicts it; None: all slots do."""
        if id(data) not in self._routes:
            self._routes[id(data)] = self.topology.route(self.population, data)
        return self._routes[id(data)]

    @cached_property
    def _routes(self) -> dict[int, Tensor | None]:
        return {}
