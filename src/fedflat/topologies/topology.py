"""What a topology is: which of the server's models asks which clients, along which chains, and how
models meet.

A server may hold several models, each in a **slot** with its own server pieces' memory and its own
clients. In a round some slots step, each by an exchange with its chains. A **chain** is clients one
after the other: the first is sent the slot's model, each other one what the one before it has
returned, and the last one replies to the server for all of them. In a star every chain has one
client.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedflat.client.instructions import Describer
from fedflat.client.piece import Piece
from fedflat.composition.method import Method
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast, Reply, ReplyBatch
from fedflat.data.examples import ClientData
from fedflat.errors import SettingError
from fedflat.registry.specs import TextSpec
from fedflat.topologies.groupings.fixed import grouping_of
from fedflat.topologies.groupings.grouping import Grouping
from fedflat.topologies.population import Chain, ClientPopulation

SERVER = "server"
"""The slot of a server that has one model, and the name of the model that a run reports if no
shadow does."""

Selection = dict[str, list[Chain]]
"""For each slot that steps in a round: the chains that start from its model."""


@dataclass(frozen=True)
class InFlight:
    """A round of a topology that does not wait for those it asks: replies come to models of earlier
    rounds."""

    since: Mapping[int, int]
    """Whose replies the round has, in the order in which they come, and in which round each of them
    was asked."""
    started: Sequence[int]
    """Who is asked in this round."""
    left: Set[int]
    """Rounds whose model somebody is still at work on when this one is done."""
    moment: float
    """When the server steps."""


class Topology(TextSpec, ABC):
    """A frozen dataclass. The base class is a server with one model; only who is asked is left to
    say."""

    key: ClassVar[str]
    """Its name in messages."""

    @property
    def describers(self) -> tuple[Describer, ...]:
        """What every client must say of itself before round 0, such as a grouping needs in a field
        ``groups``: `ClientPopulation.descriptions_by` has it then."""
        groups = getattr(self, "groups", None)
        return groups.describers if isinstance(groups, Grouping) else ()

    @property
    def has_chains(self) -> bool:
        """Whether clients are sent what other clients have returned."""
        return False

    @property
    def merges_models(self) -> bool:
        """Whether a slot's model is changed otherwise than by its own steps."""
        return False

    @property
    def has_center(self) -> bool:
        """Whether there is one model that stands for all slots."""
        return True

    @property
    def synchronous(self) -> bool:
        """Whether a round has the replies of those who were asked in it."""
        return True

    @property
    def reports_slots(self) -> bool:
        """Whether each slot's model is a result by itself, evaluated and written beside the one
        that stands for all."""
        return True

    def check_before(self, population: ClientPopulation) -> None:
        """Refuse clients that it cannot be made of, whatever they will say of themselves."""
        groups = getattr(self, "groups", None)
        if isinstance(groups, Grouping):
            groups.possible(population.sizes())

    def check(self, population: ClientPopulation) -> None:
        """Refuse clients that it cannot be made of."""
        population.sampler.check(population.n_clients, population.rounds)

    def slots(self, population: ClientPopulation) -> Mapping[str, Sequence[int]]:
        """The server's models by name, and whose they are."""
        return {SERVER: range(population.n_clients)}

    def superclients(self, population: ClientPopulation) -> Sequence[Chain]:
        """Groups of clients that train one after the other and stay together, where there are
        any."""
        return ()

    def groups_of(self, population: ClientPopulation) -> Sequence[Chain]:
        """Groups that clients are in from the first round on: superclients, or what a field
        ``groups`` says."""
        groups, found = getattr(self, "groups", None), self.superclients(population)
        return (
            found if found or groups is None else population.groups(grouping_of(self.key, groups))
        )

    @abstractmethod
    def select(self, population: ClientPopulation, t: int) -> Selection:
        """Who is asked in round ``t``; replies are folded in this order. A slot that is left out
        stays as it is."""

    def in_flight(self, population: ClientPopulation, t: int) -> InFlight | None:
        """Who is at work on what in round ``t``, if it does not wait for those it asks."""
        return None

    def weigh_reply(
        self, now: Broadcast, sent: Broadcast, reply: Reply | ReplyBatch
    ) -> Reply | ReplyBatch:
        """What the server takes a reply for that answers ``sent``, when ``now`` is what it
        sends."""
        return reply

    def merge(
        self,
        population: ClientPopulation,
        t: int,
        models: Mapping[str, Model],
        weights: Mapping[str, float],
    ) -> dict[str, Model]:
        """What becomes of the models after round ``t``; ``weights`` are those of the replies that
        each slot had."""
        return dict(models)

    def center(
        self, population: ClientPopulation, done: int, models: Mapping[str, Model]
    ) -> Model | None:
        """The model that stands for all slots when ``done`` rounds are done: it is reported, and
        shadows are averages of it."""
        return next(iter(models.values())) if self.has_center else None

    def merges_after(self, population: ClientPopulation, t: int) -> bool:
        """Whether slots that step from round ``t + 1`` on must wait until all have done round
        ``t``."""
        return True

    def end_times(self, population: ClientPopulation, t: int) -> float | None:
        """When round ``t`` ends, in simulated seconds since the start, for a topology that keeps
        time itself because its rounds overlap; None: a round begins when the one before it has
        ended, and waits for its replies."""
        return None

    def metrics(self, population: ClientPopulation, t: int) -> dict[str, float]:
        """Measurements of its own in round ``t``, written with each evaluation."""
        return {}

    def route(self, population: ClientPopulation, data: ClientData) -> Tensor | None:
        """For each test example the place of the slot whose model it is for; None if all models are
        for everybody."""
        return None

    def smallest_cohort(self, population: ClientPopulation) -> int:
        """The fewest replies that a slot has in a round in which it steps."""
        return population.sampler.smallest(population.rounds)

    def parallel_clients(self, population: ClientPopulation) -> int:
        """How many visits can be made at the same time, about."""
        return self.smallest_cohort(population)

    def expected_clients(self, population: ClientPopulation) -> int:
        """How many visits the run makes, about."""
        return population.sampler.expected_clients(population.rounds)

    def refuse(self, method: Method, pieces: Sequence[Piece]) -> None:
        """Refuse a method that means nothing here; ``pieces`` are all of a client's."""
        if method.pooled:
            raise SettingError(
                f"centralised training brings all data to one place, so there is nobody for {self} to connect. Leave "
                "one of them out."
            )
        for piece in pieces:
            self._refuse_piece(piece)
        for one in method.reply_listeners:
            if self.has_chains:
                raise SettingError(
                    f"{one} wants what every client has made, but with {self} only the last client of a chain "
                    "replies. Leave one of them out."
                )
        for average in method.averages:
            if not self.has_center:
                raise SettingError(
                    f"{average} is an average of the server's model, but with {self} there is no one model that stands "
                    "for all. Leave one of them out, or share a part of the model."
                )

    def _refuse_piece(self, piece: Piece) -> None:
        why = ""
        if self.has_chains and piece.state_vectors:
            why = "remembers at each client how it stood to the server's model, which a client in a chain is not sent"
        elif self.has_chains and piece.upload_vectors:
            why = "sends vectors to the server with every reply, but only the last client of a chain replies"
        elif self.has_chains and (piece.needs_cohort_order or piece.needs_server_model):
            why = "must be sent the server's own model, but in a chain a client is sent that of the client before it"
        elif self.merges_models and piece.state_vectors:
            why = "remembers at each client how it stood to one sequence of models, which breaks off when models meet"
        if why:
            raise SettingError(
                f"{piece} means nothing with {self}: it {why}. Leave one of them out."
            )
