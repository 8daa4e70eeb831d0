"""An experiment made ready: data opened, model built, everything checked that can be checked before
round 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from statistics import fmean

from torch import Tensor

from fedflat.client.attacker import Attacker
from fedflat.client.evaluate import outputs
from fedflat.client.instructions import Describer, Descriptions
from fedflat.client.learner import Learner
from fedflat.client.piece import ModelInfo, eval_model_piece
from fedflat.client.preflight import check_training_step
from fedflat.client.training import ClientJob
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast
from fedflat.data.domains import Domain
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation
from fedflat.data.files.paths import data_place
from fedflat.errors import FedflatError, SettingError, shown
from fedflat.execution.client_pool import ClientPool
from fedflat.execution.client_states import ClientStates, usual_budget
from fedflat.experiments.devices import fleet_of, pace
from fedflat.experiments.eval_models import (
    EvalModels,
    Routing,
    check_eval_models,
    clients_of_domains,
)
from fedflat.experiments.evaluation import ClientTests, client_tests
from fedflat.experiments.experiment import Experiment, open_federation
from fedflat.experiments.population import (
    check_batches,
    check_population,
    open_population,
    selected_clients,
)
from fedflat.experiments.results.tables import size
from fedflat.experiments.state import Ledger
from fedflat.server.averaging import RunInfo
from fedflat.server.client_registry import ClientRegistry
from fedflat.server.client_selection import ClientSampler
from fedflat.server.piece import ServerData, StepResult
from fedflat.simulation.attacks.attack import AttackedRun
from fedflat.simulation.clock import Fleet
from fedflat.topologies.population import ClientPopulation
from fedflat.topologies.topology import Selection


@dataclass(frozen=True)
class PreparedRun:
    """What `train` works with."""

    exp: Experiment
    fed: Federation
    source: Callable[[], Federation]
    """The same data for a worker process to open."""
    learner: Learner
    clients: ClientPopulation
    """The clients as the topology sees them."""
    job: ClientJob
    info: RunInfo
    private_size: int
    """Numbers of the model that stay with the clients."""
    server_data: ServerData | None = None
    """What the server has besides models."""
    descriptions: Descriptions = field(default_factory=dict)
    """What every client has said of itself before round 0."""
    initial_cost: Ledger = Ledger()
    """What that has cost."""

    @cached_property
    def describers(self) -> tuple[Describer, ...]:
        """What every client must be asked before round 0, by whoever wants to know."""
        method = self.exp.method
        pieces = [
            *(one.describers for one in self.job.pieces),
            *(one.describers for one in method.server),
        ]
        return tuple(
            dict.fromkeys(chain(self.exp.topology.describers, *pieces, self.exp.init.describers))
        )

    @cached_property
    def with_guessed_groups(self) -> PreparedRun:
        """The same for estimates, where groups hang on what clients have not been asked yet: these
        are guessed."""
        if all(describer in self.descriptions for describer in self.exp.topology.describers):
            return self
        population = self.clients.with_guessed_groups
        try:
            self.exp.topology.check(population)
        except SettingError:  # which the groups that there will be may not meet
            population = replace(population, sampler=ClientSampler(clients=1))
        return replace(self, clients=population)

    @property
    def device(self) -> str:
        """Where models are."""
        return self.learner.device

    @cached_property
    def fleet(self) -> Fleet | None:
        """The clients' devices, if the run has a clock; centralised training needs none."""
        return fleet_of(self.exp)

    @property
    def registry(self) -> ClientRegistry:
        """Who there is, and no more."""
        return ClientRegistry.of(self.fed)

    def client_tests(
        self,
        pool: ClientPool,
        eval_models: EvalModels = EvalModels(),
        some: Sequence[int] | None = None,
    ) -> ClientTests | None:
        """The tests that clients, all or some, make of their own, if they keep something to test
        on."""
        name, may_miss = self.exp.task.headline.name, self.exp.min_replies is not None
        return client_tests(pool, self.registry, name, eval_models, may_miss=may_miss, clients=some)

    def eval_models(self, clients: ClientStates) -> EvalModels:
        """How models are tested, where ``clients`` keep a part of them."""
        return EvalModels(
            eval_model_piece(self.job.pieces), self.info.layout, self.clients_of_domains, clients
        )

    def routing(self, models: Mapping[str, Model]) -> Routing | None:
        """Which of these models each test example is tested with, if the topology says so."""
        if self._route(self.fed.test) is None:
            return None
        return Routing(self._route, list(models.values()))  # type: ignore[arg-type]

    def _route(self, data: ClientData) -> Tensor | None:
        if id(data) not in self._routes:
            self._routes[id(data)] = self.exp.topology.route(self.clients, data)
        return self._routes[id(data)]

    @cached_property
    def _routes(self) -> dict[int, Tensor | None]:
        return {}

    @cached_property
    def clients_of_domains(self) -> Mapping[Domain, Sequence[int]]:
        """The clients of each domain, if a piece must know."""
        return clients_of_domains(self.fed) if eval_model_piece(self.job.pieces) else {}

    def remarks(self, state_memory: int | None = None) -> list[str]:
        """What is good to know before the first round; ``state_memory`` as in `train`."""
        site = ModelInfo(self.job.pieces, self.learner.flat.module, self.info.layout, self.exp.task)
        said = [self.exp.task.remark(self.fed), *(piece.remark(site) for piece in self.job.pieces)]
        if (
            self.exp.attack is not None and self.with_guessed_groups is self
        ):  # else nobody knows yet who attacks
            said.append(self.exp.attack.remark(self.attacked_run))
        if self.client_memory:
            budget = usual_budget() if state_memory is None else state_memory
            fits = self.client_memory <= budget
            where = "kept in memory" if fits else f"{size(budget)} kept in memory, the rest on disk"
            said.append(f"clients will remember up to {size(self.client_memory)} in all, {where}")
        if self.exp.clock is not None:
            said.append(
                pace(self.exp, self.clients, selected_clients(self.with_guessed_groups.select(0)))
            )
        said += [
            f"before round 0 every client is asked for {one}: {one.reveals}"
            for one in self.describers
        ]
        return [text for text in said if text]

    @cached_property
    def attacked_run(self) -> AttackedRun:
        """The run as those see it who attack it."""
        return attacked_run(self.exp, self.fed, self.learner, self.clients)

    def addressed(self, broadcast: Broadcast, cohort: Sequence[int]) -> Broadcast:
        """The mail as it goes to this cohort: pieces that must know it are told what those before
        each client do."""
        if not any(piece.needs_cohort_order for piece in self.job.pieces):
            return broadcast
        told, count, batches = dict[int, tuple[int, float]](), 0, 0.0
        for client in cohort:
            told[client] = count, batches
            examples, local = self.registry.size(client), self.job.local
            steps = local.planned_steps(broadcast.round, client, examples)
            count, batches = (
                count + 1,
                batches + local.samples(broadcast.round, client, examples) / steps,
            )
        return replace(broadcast, preceding=told)

    def samples(self, t: int, clients: Sequence[int]) -> int:
        """How many examples these clients go through in their visits of round ``t``, epochs
        counted."""
        return sum(
            self.exp.local.samples(t, client, self.registry.size(client)) for client in clients
        )

    def select(self, t: int) -> Selection:
        """Who is asked in round ``t``: the chains that start from each slot of the server."""
        asked = self.exp.topology.select(self.clients, t)
        clients = [client for chains in asked.values() for chain in chains for client in set(chain)]
        strange = set(asked) - set(self.slots)
        if (
            strange
            or not clients
            or len(set(clients)) < len(clients)
            or not all(map(all, asked.values()))
        ):
            raise FedflatError(
                f"{self.exp.topology} must ask different clients in round {t}, from slots among "
                f"{', '.join(self.slots)}, found {shown(asked)}."
            )
        return asked

    @cached_property
    def slots(self) -> Mapping[str, Sequence[int]]:
        """The server's models by name, and whose they are."""
        return self.exp.topology.slots(self.clients)

    @cached_property
    def shares(self) -> bool:
        """Whether a client may be asked by several slots."""
        return sum(map(len, self.slots.values())) > self.fed.population

    def merge(
        self, t: int, models: Mapping[str, Model], new: Mapping[str, StepResult]
    ) -> dict[str, Model]:
        """The server's models after round ``t``, in which some slots have stepped."""
        weights = {slot: one.replies.weight for slot, one in new.items()}
        return self.exp.topology.merge(
            self.clients, t, {**models, **{s: one.model for s, one in new.items()}}, weights
        )

    @property
    def reported_slots(self) -> Mapping[str, Sequence[int]]:
        """Slots whose models are told each by itself, and whose they are."""
        return self.slots if len(self.slots) > 1 and self.exp.topology.reports_slots else {}

    def center_params(self, done: int, models: Mapping[str, Model]) -> Tensor:
        """The parameters of the model that stands for all of the server's when ``done`` rounds are
        done."""
        centre = self.center(done, models)
        assert centre is not None, "shadows of no model"
        return centre.params

    def center(self, done: int, models: Mapping[str, Model]) -> Model | None:
        """The model that stands for all of the server's when ``done`` rounds are done."""
        return self.exp.topology.center(self.clients, done, models)

    @property
    def client_memory(self) -> int:
        """Bytes that all clients together will remember, once each has been seen or the run has
        ended."""
        vectors = self.exp.method.cost.client_state + sum(
            average.client_vectors for average in self.exp.method.averages
        )
        seen = min(
            self.fed.population,
            self.exp.topology.expected_clients(self.with_guessed_groups.clients),
        )
        return seen * vectors * self.info.layout.dim * self.learner.dtype.itemsize


def prepare(exp: Experiment, device: str = "cpu") -> PreparedRun:
    """Open and check; a mistake is refused here, before anything is written."""
    source = exp.source(device)
    fed = source()
    learner = exp.open_learner(fed, device)
    population = open_population(exp, fed, learner)
    known = (
        not exp.topology.describers
    )  # else what hangs on groups is made and checked when clients have been asked
    if known:
        check_population(exp, fed, population)
    else:
        exp.topology.check_before(population)
    check_training_step(learner, fed, exp.method.client)
    check_batches(exp, fed, learner)
    shows = any(average.needs_client_models for average in exp.method.averages)
    mean = mean_examples(exp, fed)
    attackers = attackers_of(exp, fed, learner, population) if known else {}
    job = ClientJob(
        learner, exp.pieces(), exp.local, exp.seed, mean, shows, exp.as_json(), attackers
    )
    for evaluation in exp.method.evaluations:
        evaluation.check(exp.on, fed)
    for piece in job.pieces:
        piece.check(
            ModelInfo(
                job.pieces, learner.flat.module, learner.flat.layout, exp.task, learner.sample
            )
        )
    info = RunInfo(exp.rounds, fed.population, learner.flat.layout)
    withheld = sum(piece.private_size(learner.flat.layout) for piece in job.pieces)
    prepared = PreparedRun(
        exp, fed, source, learner, population, job, info, withheld, open_server_data(exp, learner)
    )
    check_eval_models(eval_model_piece(job.pieces), fed, prepared.clients_of_domains)
    check_describers(prepared)
    exp.init.check(prepared)
    return prepared


def check_describers(prepared: PreparedRun) -> None:
    """Refuse data that clients cannot describe as they will be asked."""
    public = prepared.server_data.data if prepared.server_data else None
    for describer in prepared.describers:
        if public is None and (describer.uses_data or describer.probe):
            raise SettingError(
                f"{describer} needs data of the server's own. Name some: --server-data 'digits()'."
            )
        describer.check(prepared.fed, prepared.learner, public)


def open_server_data(exp: Experiment, learner: Learner) -> ServerData | None:
    """The server's own data; refused where a piece needs some and there are none, or where they do
    not fit."""
    if exp.server_data is None:
        for piece in exp.method.server:
            if piece.uses_data:
                raise SettingError(
                    f"{piece} needs data of the server's own. Name some: --server-data 'digits()'."
                )
        return None
    data = open_federation(exp.server_data, exp.seed, True, learner.device, data_place()).data(0)
    try:
        next(outputs(learner, data))
    except Exception as error:
        raise SettingError(
            f"the server's data {exp.server_data}, with inputs of shape {data.examples.shape}, do not fit the model "
            f"({error}). Take data like the clients'."
        ) from error
    return ServerData(learner, data)


def attacked_run(
    exp: Experiment, fed: Federation, learner: Learner, population: ClientPopulation
) -> AttackedRun:
    """The run as those see it who attack it."""
    return AttackedRun(exp.on, fed, learner, exp.topology.superclients(population), exp.seed)


def attackers_of(
    exp: Experiment, fed: Federation, learner: Learner, population: ClientPopulation
) -> Mapping[int, Attacker]:
    """The clients that lie, if there is an attack; one that cannot be made is refused."""
    if exp.attack is None:
        return {}
    if exp.method.pooled:
        raise SettingError(
            "centralised training has no clients that could attack. Leave --attack out."
        )
    attacked = attacked_run(exp, fed, learner, population)
    exp.attack.check(attacked)
    return exp.attack.attackers(attacked)


def mean_examples(exp: Experiment, fed: Federation) -> float:
    """How many examples a client holds on average, if a piece must know; counting may be
    refused."""
    for piece in exp.pieces():
        if piece.needs_mean_examples:
            try:
                return fmean(fed.sizes())
            except SettingError as error:
                raise SettingError(f"{piece}: {error}") from None
    return 0.0
