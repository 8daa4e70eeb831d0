"""Topologies: which server model trains on which clients, and how models merge.

A `Topology` arranges a `ClientPopulation`, which is all that it sees of the clients.

A server may hold several models, each in a **slot** with its own state of the server pieces and its
own clients. In a round some slots step, each with an exchange with its chains. In a **chain**
clients train one after the other. The first client receives the slot's model, each other one the
model of the client before it, and the last one replies to the server. In a star every chain has one
client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from torch import Tensor

from fedflat.client.instructions import Describer, Descriptions
from fedflat.client.piece import Piece
from fedflat.composition.method import Method
from fedflat.core.flat import Layout, Model
from fedflat.core.messages import Broadcast, Reply, ReplyBatch
from fedflat.core.seeds import numpy_generator
from fedflat.data.examples import ClientData
from fedflat.errors import SettingError, shown
from fedflat.registry.specs import TextSpec, register
from fedflat.server.client_selection import Chain, ClientSampler, Selection
from fedflat.topologies.groupings.client_vectors import representers
from fedflat.topologies.groupings.dissimilarity import Vectors
from fedflat.topologies.groupings.fixed import grouping_of
from fedflat.topologies.groupings.grouping import Grouping

SERVER = "server"
"""The slot of a server with one model, and the name of the reported model if no average is
reported."""
T = TypeVar("T")


ROUNDS_AHEAD = 16
"""Most rounds whose cohorts are drawn at once."""
CLIENTS_AHEAD = 2000
"""Most clients that are drawn at once, if they are those of more than one round."""


def no_columns(name: str) -> Sequence[str]:
    """Raise `SettingError`: these data have no columns."""
    raise SettingError(f"these data have no column {name!r}. Group clients by something else.")


@dataclass(frozen=True)
class ClientPopulation:
    """The clients as a topology sees them: their number, sizes, selection and groups.

    sampler
        Selects the clients of a round.
    rounds
        Number of rounds of the run.
    seed
        The seed of the run.
    layout
        Names and shapes of the model's parameters.
    """

    n_clients: int
    """Number of clients."""
    sizes: Callable[[], Sequence[int]]
    """Returns the number of training examples of each client. It may raise `SettingError` where
    clients are made on demand."""
    sampler: ClientSampler
    rounds: int
    seed: int
    layout: Layout
    keeps_to_end: Callable[[int, int], float] = lambda client, t: 1.0
    """Returns the simulated seconds that a client's work takes in a round; 1 if the run has no
    clock."""
    column: Callable[[str], Sequence[str]] = no_columns
    """Returns the value of a column of the data, such as a town, of each client. It may raise
    `SettingError`."""
    classes: int | None = None
    """Number of classes, or None if examples have none."""
    descriptions: Descriptions = field(default_factory=dict)
    """Descriptions of all clients, by describer."""
    timed: bool = False
    """True if the run has a simulated clock."""
    online: Callable[[int], Sequence[int] | None] = lambda t: None
    """Returns the clients that can be asked in a round, in ascending order; None if all can."""
    _cohorts: dict[int, list[int]] = field(default_factory=dict, repr=False, compare=False)
    _groups: dict[str, tuple[Chain, ...]] = field(default_factory=dict, repr=False, compare=False)
    _sequences: dict[str, tuple[Iterator[Any], list[Any]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _vectors: dict[Describer, Vectors] = field(default_factory=dict, repr=False, compare=False)

    def with_descriptions(self, descriptions: Descriptions) -> ClientPopulation:
        """Return the same population with descriptions of the clients."""
        return replace(
            self, descriptions=descriptions, _cohorts={}, _groups={}, _sequences={}, _vectors={}
        )

    def descriptions_by(self, describer: Describer) -> Sequence[Tensor]:
        """Return what a describer computed for each client.

        The topology must declare the describer.
        """
        if describer not in self.descriptions:
            raise SettingError(
                f"clients have not computed {describer}. They do when a run begins, for the "
                "describers that its topology declares."
            )
        return self.descriptions[describer]

    def draw(self, t: int) -> list[int]:
        """Return the cohort of round ``t``, selected from all clients that are online."""
        online = self.online(t)
        if online is None or len(online) == self.n_clients or self.sampler.cohorts is not None:
            if t not in self._cohorts:
                self._draw_ahead(t)
            return list(self._cohorts[t])
        sampler = replace(self.sampler, clients=min(self.sampler.clients, len(online)))
        sizes = self.sizes
        drawn = sampler.draw(t, len(online), self.seed, lambda: [sizes()[one] for one in online])
        return [online[place] for place in drawn]

    def _draw_ahead(self, t: int) -> None:
        """Draw the cohorts of several rounds: in a row one takes a third of the time."""
        ahead = max(1, min(ROUNDS_AHEAD, CLIENTS_AHEAD // self.sampler.clients, self.rounds - t))
        self._cohorts.clear()
        for u in range(t, t + ahead):
            self._cohorts[u] = self.draw_from(u, self.n_clients, self.sizes)

    def draw_from(
        self, t: int, count: int, sizes: Callable[[], Sequence[int]], place: int = 0
    ) -> list[int]:
        """Select from ``count`` items.

        Draws of one round with different ``place`` are independent.
        """
        return self.sampler.draw(t, count, self.seed, sizes, place)

    def rng(self, purpose: str, *path: int) -> np.random.Generator:
        """Return a random generator for a topology, from the run's seed."""
        return numpy_generator(self.seed, f"topology/{purpose}", *path)

    def sequence(self, name: str, generate: Callable[[], Iterator[T]], t: int) -> T:
        """Return item ``t`` of a generated sequence, cached.

        ``generate`` is called once per ``name``.
        """
        if name not in self._sequences:
            self._sequences[name] = generate(), []
        generator, items = self._sequences[name]
        while len(items) <= t:
            items.append(next(generator))
        item: T = items[t]
        return item

    def groups(self, grouping: Grouping, *path: int) -> tuple[Chain, ...]:
        """Return all clients in groups, cached and checked.

        Another ``path`` gives other random numbers.
        """
        key = f"{grouping} {path}"
        if key not in self._groups:
            self._groups[key] = self._make_groups(grouping, *path)
        return self._groups[key]

    def _representers(self, describer: Describer) -> Vectors:
        if describer not in self._vectors:
            self._vectors[describer] = representers(describer, self.descriptions_by(describer))
        return self._vectors[describer]

    def _make_groups(self, grouping: Grouping, *path: int) -> tuple[Chain, ...]:
        parts = [self._representers(one) for one in grouping.describers]
        if grouping.needs_column is not None:
            values = self.column(grouping.needs_column)
            parts.append(np.unique(values, return_inverse=True)[1].astype(np.float64)[:, None])
        vectors = np.concatenate(parts, axis=1) if parts else np.zeros((self.n_clients, 0))
        assigned = grouping.assign(
            vectors, self.sizes(), self.rng("groups", *path), classes=self.classes
        )
        found = tuple(map(tuple, assigned))
        if not all(found) or sorted(client for group in found for client in group) != list(
            range(self.n_clients)
        ):
            raise SettingError(
                f"{grouping} must put each of the {self.n_clients} clients into one group and "
                f"leave no group empty, found {shown(found)}."
            )
        return found


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


class Topology(TextSpec):
    """Base class of topologies: a frozen dataclass.

    It has one model at the server, which all selected clients train; subclasses change this.
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

    def select(self, population: ClientPopulation, t: int) -> Selection:
        """Return the chains of round ``t`` by slot.

        Replies are aggregated in this order, and other slots do not change. The default is the
        cohort in one slot, as chains of one client.
        """
        return {SERVER: [(client,) for client in population.draw(t)]}

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


@dataclass(frozen=True, repr=False)
class Star(Topology):
    """One model at the server. Every client of the cohort receives it and replies."""

    key = "star"

    def refuse(self, method: Method, pieces: Sequence[Piece]) -> None:
        """Accept every method."""


star = register("topology", "star")(Star)
