"""The model that each part of a test set is tested with, where clients keep a part of the model.

A domain that clients have is tested with what these clients keep, if they have trained; any other
domain as one that no client has. If the pool keeps the state of clients itself, no domain is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fedflat.client.evaluate import TestPart
from fedflat.client.piece import ClientState, EvalModel, Piece, eval_model_piece
from fedflat.client.training import ClientJob
from fedflat.core.flat import Layout, Model
from fedflat.data.domains import Domain
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation, owners_of_tests
from fedflat.errors import SettingError
from fedflat.execution.client_states import ClientStates
from fedflat.experiments.experiment import Experiment
from fedflat.server.client_registry import ClientRegistry
from fedflat.tasks.task import Task


@dataclass(frozen=True)
class EvalModels:
    """Which form of a model each domain is tested with."""

    piece: Piece
    layout: Layout
    homes: Mapping[Domain, Sequence[int]]
    """The clients of each domain."""
    clients: ClientStates
    states: Sequence[Mapping[str, Tensor]] | None = None
    """The states of all clients, if they follow from what is shared with them."""
    owners: Mapping[int, Tensor] = field(default_factory=dict)
    """The client of each test example, by the id of the test set, where ``states`` are known."""

    def client_state(self, client: int) -> ClientState:
        """The part of the model that a client keeps; empty if it has not trained."""
        if self.states is not None:
            return {self.piece.key: dict(self.states[client])}
        found = self.clients.state(client).get(self.piece.key)
        return {self.piece.key: found} if found else {}

    def parts(self, data: ClientData, model: Model) -> list[TestPart]:
        """The parts of a test set, each with its model; empty if it cannot be tested."""
        if self.states is not None:
            return self._parts_by_client(data, model, self.states)
        found: list[TestPart] = []
        unseen = set(range(len(data)))
        for domain, places in data.domains.finest().items() if data.domains else ():
            known = [
                one
                for client in self.homes.get(domain, ())
                for one in self.client_state(client).values()
            ]
            if known:
                found.append(
                    TestPart(torch.tensor(places), self.piece.eval_model(self.layout, model, known))
                )
                unseen -= set(places)
        rest = self._rest(data, sorted(unseen))
        return (
            [*found, TestPart(torch.tensor(rest), self.piece.eval_model(self.layout, model, ()))]
            if rest
            else found
        )

    def _parts_by_client(
        self, data: ClientData, model: Model, states: Sequence[Mapping[str, Tensor]]
    ) -> list[TestPart]:
        """The examples of clients with equal states together; empty if clients are not known."""
        owners = self.owners.get(id(data))
        if owners is None:
            return []
        alike: dict[tuple[float, ...], list[int]] = {}
        for place, client in enumerate(owners.tolist()):
            key = tuple(x for tensor in states[client].values() for x in tensor.tolist())
            alike.setdefault(key, []).append(place)
        return [
            TestPart(
                torch.tensor(places),
                self.piece.eval_model(self.layout, model, [states[int(owners[places[0]])]]),
            )
            for places in alike.values()
        ]

    def _rest(self, data: ClientData, unseen: list[int]) -> list[int]:
        """The remaining examples that can be tested."""
        if not self.piece.seen_domains_only or data.domains is None:
            return unseen
        return [place for place in unseen if data.domains.each[place] in self.homes]


@dataclass(frozen=True)
class Routing:
    """Which of the server's models each test example is tested with."""

    route: Callable[[ClientData], Tensor]
    """For each example the place of its model."""
    models: Sequence[Model]

    def parts(self, data: ClientData, model: Model) -> list[TestPart]:
        """The parts of a test set, each with its own model."""
        where = self.route(data)
        places = {at: (where == at).nonzero().squeeze(-1) for at in where.unique().tolist()}
        return [TestPart(mine, EvalModel(self.models[at])) for at, mine in places.items()]


def eval_models_of(
    job: ClientJob, registry: ClientRegistry, fed: Federation
) -> Callable[[ClientStates], EvalModels] | None:
    """How to test models of which a piece keeps a part at clients; None if no piece does."""
    piece = eval_model_piece(job.pieces)
    if piece is None:
        return None
    layout = job.learner.flat.layout
    states = piece.states_from_shared(job.shared.get(piece.key, {}))
    owners = None if states is None else owners_of_tests(fed)

    def forms(clients: ClientStates) -> EvalModels:
        if states is None:
            return EvalModels(piece, layout, registry.clients_by_domain(), clients)
        known = {} if owners is None else {id(fed.test): owners}
        return EvalModels(piece, layout, {}, clients, states, known)

    return forms


def check_eval_models(piece: Piece | None, fed: Federation, registry: ClientRegistry) -> None:
    """Refuse a method that is tested on seen domains only, if the main test set has none."""
    domains = fed.test.domains
    if piece is None or not piece.seen_domains_only or domains is None or not fed.here:
        return
    if not set(domains.each) & set(registry.clients_by_domain()):
        raise SettingError(
            f"{piece} is tested on domains that clients have, with what these clients keep, and no "
            "test example is of a client's domain here. Use silobn(), or data that are tested on "
            "what clients have seen."
        )


def with_fewer_tests(fed: Federation, count: int | None) -> Federation:
    """The federation with ``count`` random examples of each test set; None: with all."""
    if count is None:
        return fed
    more = {name: drawn(data, count) for name, data in fed.more.items()}
    return replace(fed, test=drawn(fed.test, count), more=more)  # type: ignore[type-var]


def drawn(data: ClientData, count: int) -> ClientData:
    """Random examples in their order, always the same; all if there are not more."""
    if count >= len(data):
        return data
    places = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:count]
    return replace(data, index=data.index[places.sort().values.to(data.index.device)])


def check_evaluated(exp: Experiment, fed: Federation, job: ClientJob) -> None:
    """Refuse to leave out test examples that the evaluation of others needs."""
    if exp.evaluate.examples is None:
        return
    why = ""
    if exp.task.reference or type(exp.task).reference_rows is not Task.reference_rows:
        why = f"the task {exp.task} compares test examples with each other"
    piece = eval_model_piece(job.pieces)
    if piece is not None and owners_of_tests(fed) is not None:
        why = f"{piece} evaluates each test example with the model of its client"
    if why:
        raise SettingError(
            f"run: eval_examples={exp.evaluate.examples} cannot be used, since {why}. Leave it out, "
            "and evaluate less often: --eval-every."
        )
