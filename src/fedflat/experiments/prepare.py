"""Prepare an experiment: open the data, build the model, check all that can be checked before
round 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import fmean

from fedflat.client.attacker import Attacker, attacked
from fedflat.client.evaluate import outputs
from fedflat.client.instructions import Describer
from fedflat.client.learner import Learner
from fedflat.client.piece import ModelInfo, eval_model_piece
from fedflat.client.preflight import check_training_step
from fedflat.client.training import ClientJob
from fedflat.data.federation import Federation
from fedflat.data.files.paths import data_place
from fedflat.errors import SettingError
from fedflat.experiments.eval_models import check_eval_models, check_evaluated
from fedflat.experiments.experiment import Experiment, open_federation
from fedflat.experiments.model_selection import check_selection
from fedflat.experiments.population import (
    check_batches,
    check_population,
    open_population,
    open_registry,
)
from fedflat.experiments.run_setup import RunSetup
from fedflat.server.client_registry import ClientRegistry
from fedflat.server.piece import ServerData
from fedflat.simulation.attacks.attack import AttackedRun
from fedflat.topologies.server_models import ServerModels
from fedflat.topologies.topology import ClientPopulation


def prepare(exp: Experiment, device: str = "cpu") -> RunSetup:
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
    job = ClientJob(
        learner,
        exp.pieces(),
        exp.local,
        exp.seed,
        mean_examples(exp, registry),
        any(average.needs_client_models for average in exp.method.averages),
        exp.as_json(),
    )
    if known:
        job = attacked(job, attackers_of(exp, fed, learner, population))
    for evaluation in exp.method.evaluations:
        evaluation.check(exp.on, fed.held_out is not None)
    model = ModelInfo(
        job.pieces, learner.flat.module, learner.flat.layout, exp.task, learner.sample
    )
    for piece in job.pieces:
        piece.check(model)
    server_data = open_server_data(exp, learner)
    check_eval_models(eval_model_piece(job.pieces), fed, registry)
    check_describers(describers_of(exp, job), fed, learner, server_data)
    exp.init.check(exp, learner, lambda first: prepare(first, device).job.learner)
    check_selection(exp, fed)
    check_evaluated(exp, fed, job)
    server = ServerModels(exp.topology, population, exp.method.averages)
    return RunSetup(exp, fed, source, registry, server, job, server_data)


def describers_of(exp: Experiment, job: ClientJob) -> tuple[Describer, ...]:
    """Descriptions that the topology, the pieces and the initializer need before round 0."""
    pieces = [
        *(one.describers for one in job.pieces),
        *(one.describers for one in exp.server_pieces()),
    ]
    return tuple(dict.fromkeys(chain(exp.topology.describers, *pieces, exp.init.describers)))


def check_describers(
    describers: Sequence[Describer],
    fed: Federation,
    learner: Learner,
    server_data: ServerData | None,
) -> None:
    """Check that clients can describe themselves as needed."""
    public = server_data.data if server_data else None
    for describer in describers:
        if public is None and (describer.uses_data or describer.probe):
            raise SettingError(
                f"{describer} needs data of the server's own. Name some: --server-data 'digits()'."
            )
        describer.check(fed, learner, public)


def open_server_data(exp: Experiment, learner: Learner) -> ServerData | None:
    """The server's own data.

    Raises `SettingError` if a piece needs data and there are none, or if the model cannot use them.
    """
    if exp.server_data is None:
        for piece in exp.server_pieces():
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
    run = attacked_run(exp, fed, learner, population)
    exp.attack.check(run)
    return exp.attack.attackers(run)


def mean_examples(exp: Experiment, registry: ClientRegistry) -> float:
    """The mean number of examples of a client if a piece needs it, otherwise 0."""
    for piece in exp.pieces():
        if piece.needs_mean_examples:
            try:
                return fmean(registry.sizes())
            except SettingError as error:
                raise SettingError(f"{piece}: {error}") from None
    return 0.0
