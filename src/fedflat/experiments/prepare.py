"""Prepare an experiment: open the data, build the model, check all that can be checked before
round 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from statistics import fmean

from fedflat.client.attacker import Attacker
from fedflat.client.evaluate import outputs
from fedflat.client.instructions import Describer, Descriptions
from fedflat.client.learner import Learner
from fedflat.client.piece import ModelInfo, eval_model_piece
from fedflat.client.preflight import check_training_step
from fedflat.client.training import ClientJob
from fedflat.data.federation import Federation
from fedflat.data.files.paths import data_place
from fedflat.errors import SettingError
from fedflat.experiments.devices import fleet_of
from fedflat.experiments.eval_models import check_eval_models
from fedflat.experiments.experiment import Experiment, open_federation
from fedflat.experiments.population import (
    check_batches,
    check_population,
    open_population,
    open_registry,
)
from fedflat.experiments.server_models import ServerModels
from fedflat.experiments.state import Ledger
from fedflat.server.averaging import RunInfo
from fedflat.server.client_registry import ClientRegistry
from fedflat.server.client_selection import ClientSampler
from fedflat.server.piece import SelectionInfo, ServerData
from fedflat.simulation.attacks.attack import AttackedRun
from fedflat.simulation.clock import Fleet
from fedflat.topologies.population import ClientPopulation


@dataclass(frozen=True)
class PreparedRun:
    """An experiment with its data, model and clients, as `train` uses it; see `prepare`."""

    exp: Experiment
    fed: Federation
    source: Callable[[], Federation]
    """Opens the same data in a worker process; can be pickled."""
    learner: Learner
    clients: ClientPopulation
    """The clients, as the topology sees them."""
    registry: ClientRegistry
    """The clients, as the server sees them."""
    job: ClientJob
    info: RunInfo
    private_size: int
    """Number of parameters that stay with the clients."""
    server_data: ServerData | None = None
    """Data of the server's own."""
    descriptions: Descriptions = field(default_factory=dict)
    """Descriptions of all clients, collected before round 0."""
    initial_cost: Ledger = Ledger()
    """The cost of these descriptions."""

    @cached_property
    def describers(self) -> tuple[Describer, ...]:
        """Descriptions that the topology, the pieces and the initializer need before round 0."""
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
        """The same for estimates: groups that depend on missing descriptions are guessed."""
        if all(describer in self.descriptions for describer in self.exp.topology.describers):
            return self
        population = self.clients.with_guessed_groups
        try:
            self.exp.topology.check(population)
        except SettingError:  # the real groups may pass the check
            population = replace(population, sampler=ClientSampler(clients=1))
        return replace(self, clients=population)

    @property
    def device(self) -> str:
        """The device of the models."""
        return self.learner.device

    def selection(self, t: int) -> SelectionInfo:
        """How the clients of round ``t`` are selected."""
        sampler = self.clients.sampler
        if sampler.cohorts is not None:
            return SelectionInfo(self.exp.seed, len(sampler.cohorts[t]), "given")
        return SelectionInfo(self.exp.seed, sampler.clients, sampler.kind or "uniform")

    @cached_property
    def fleet(self) -> Fleet | None:
        """The clients' devices, if the run has simulated time."""
        return fleet_of(self.exp)

    @cached_property
    def server(self) -> ServerModels:
        """The server's models and their clients."""
        return ServerModels(self.exp.topology, self.clients)

    @cached_property
    def attacked_run(self) -> AttackedRun:
        """The run as an attack sees it."""
        return attacked_run(self.exp, self.fed, self.learner, self.clients)


def prepare(exp: Experiment, device: str = "cpu") -> PreparedRun:
    """Open the data, build the model, and check the experiment before anything is written.

    Raises `SettingError` if the experiment cannot be run.
    """
    source = exp.source(device)
    fed = source()
    learner = exp.open_learner(fed, device)
    registry = open_registry(fed)
    population = open_population(exp, fed, registry, learner)
    known = not exp.topology.describers  # otherwise groups are checked after the descriptions
    if known:
        check_population(exp, registry, population)
    else:
        exp.topology.check_before(population)
    check_training_step(learner, fed, exp.method.client)
    check_batches(exp, fed, learner)
    shows = any(average.needs_client_models for average in exp.method.averages)
    mean = mean_examples(exp, registry)
    attackers = attackers_of(exp, fed, learner, population) if known else {}
    job = ClientJob(
        learner, exp.pieces(), exp.local, exp.seed, mean, shows, exp.as_json(), attackers
    )
    for evaluation in exp.method.evaluations:
        evaluation.check(exp.on, fed.held_out is not None)
    for piece in job.pieces:
        piece.check(
            ModelInfo(
                job.pieces, learner.flat.module, learner.flat.layout, exp.task, learner.sample
            )
        )
    info = RunInfo(exp.rounds, fed.population, learner.flat.layout)
    withheld = sum(piece.private_size(learner.flat.layout) for piece in job.pieces)
    prepared = PreparedRun(
        exp,
        fed,
        source,
        learner,
        population,
        registry,
        job,
        info,
        withheld,
        open_server_data(exp, learner),
    )
    check_eval_models(eval_model_piece(job.pieces), fed, registry)
    check_describers(prepared)
    exp.init.check(prepared)
    return prepared


def check_describers(prepared: PreparedRun) -> None:
    """Check that clients can describe themselves as needed."""
    public = prepared.server_data.data if prepared.server_data else None
    for describer in prepared.describers:
        if public is None and (describer.uses_data or describer.probe):
            raise SettingError(
                f"{describer} needs data of the server's own. Name some: --server-data 'digits()'."
            )
        describer.check(prepared.fed, prepared.learner, public)


def open_server_data(exp: Experiment, learner: Learner) -> ServerData | None:
    """The server's own data.

    Raises `SettingError` if a piece needs data and there are none, or if the model cannot use them.
    """
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
            f"the server's data {exp.server_data}, with inputs of shape {data.examples.shape}, do "
            f"not fit the model ({error}). Take data like the clients'."
        ) from error
    return ServerData(learner, data)


def attacked_run(
    exp: Experiment, fed: Federation, learner: Learner, population: ClientPopulation
) -> AttackedRun:
    """The run as an attack sees it."""
    return AttackedRun(exp.on, fed, learner, exp.topology.superclients(population), exp.seed)


def attackers_of(
    exp: Experiment, fed: Federation, learner: Learner, population: ClientPopulation
) -> Mapping[int, Attacker]:
    """The clients that attack; `SettingError` if the run cannot be attacked like that."""
    if exp.attack is None:
        return {}
    if exp.method.pooled:
        raise SettingError(
            "centralised training has no clients that could attack. Leave --attack out."
        )
    attacked = attacked_run(exp, fed, learner, population)
    exp.attack.check(attacked)
    return exp.attack.attackers(attacked)


def mean_examples(exp: Experiment, registry: ClientRegistry) -> float:
    """The mean number of examples of a client if a piece needs it, otherwise 0."""
    for piece in exp.pieces():
        if piece.needs_mean_examples:
            try:
                return fmean(registry.sizes())
            except SettingError as error:
                raise SettingError(f"{piece}: {error}") from None
    return 0.0
