"""Descriptions of clients, collected before the first round: for groups, pieces and initial models.

Topologies, client pieces, server pieces and initializers name the describers that they need
(``describers``). Every client is asked once, by the executor of the run. The cost is counted, and
the descriptions are kept in the run folder. They are read by

    a topology        as `ClientPopulation.descriptions_by`
    a client piece    as what `Piece.shared_with_clients` selects; it is sent to all clients once
    a server piece    as `ServerContext.descriptions`
    an initializer    as `RunSetup.descriptions`

Clients that attack describe themselves truthfully: which clients attack may depend on the groups.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fedflat.client.attacker import attacked
from fedflat.client.instructions import Describe, Describer
from fedflat.client.training import Request
from fedflat.core.failures import ClientFailure
from fedflat.core.messages import Broadcast, Reply
from fedflat.errors import FedflatError, NotFinite, RunError
from fedflat.execution.client_pool import Executor, Pool
from fedflat.experiments.experiment import Experiment
from fedflat.experiments.initializers import MATCHING, Pretrained, fit_weights
from fedflat.experiments.population import check_population, fleet_of
from fedflat.experiments.prepare import attackers_of, describers_of
from fedflat.experiments.progress import OnProgress, Progress
from fedflat.experiments.run_folder.description_store import DescriptionStore
from fedflat.experiments.run_folder.model_files import Named
from fedflat.experiments.run_folder.run_folder import DESCRIPTIONS, RunFolder
from fedflat.experiments.run_setup import RunSetup
from fedflat.server.ledger import Ledger
from fedflat.server.replies import match_replies
from fedflat.simulation.clock import Fleet

TrainFirst = Callable[[Experiment, str], Named]
"""Trains an experiment that must come first, or resumes it, in a folder of that name; returns its
final weights."""


def collect_descriptions(
    setup: RunSetup,
    run_folder: RunFolder,
    executor: Executor,
    earlier: TrainFirst,
    on_progress: OnProgress = lambda progress: None,
) -> RunSetup:
    """The run with the descriptions of all clients; asks those that the run folder lacks."""
    describers = describers_of(setup.exp, setup.job)
    if not describers:
        return setup
    store, clients = run_folder.description_store(), setup.registry.clients
    wanted = {
        one: [client for client in clients if (repr(one), client) not in store]
        for one in describers
    }
    if any(wanted.values()):
        job = attacked(setup.job, {})
        with executor.open(job, setup.fed, setup.source) as pool:
            for describer, unasked in wanted.items():
                done = len(clients) - len(unasked)
                for _ in _describe(setup, pool, store, describer, unasked, earlier):
                    done += 1
                    described = (done, len(clients))
                    on_progress(Progress(0, setup.exp.rounds, described=described))
    return with_descriptions(setup, describers, store)


def _describe(
    setup: RunSetup,
    pool: Pool,
    store: DescriptionStore,
    describer: Describer,
    clients: Sequence[int],
    earlier: TrainFirst,
) -> Iterator[Reply]:
    """Ask clients for one description and keep it; yields each reply that was kept."""
    public = setup.server_data.data if setup.server_data else None
    read = describer.server_transform(setup.job.learner, public, setup.exp.seed)
    broadcast = _broadcast(setup, describer, earlier)
    begun = time.monotonic()
    for reply in _replies(pool, broadcast, clients) if clients else ():
        cost = Ledger(samples=reply.samples)
        if not setup.exp.method.pooled:
            cost = cost.plus(down=broadcast.nbytes, up=reply.nbytes)
        vector = read(reply.extras["describe"]["vector"])
        seconds, begun = time.monotonic() - begun, time.monotonic()
        store.keep(repr(describer), reply.client, vector, cost.with_time(seconds, seconds))
        yield reply


def load_descriptions(setup: RunSetup, folder: Path, identity: str) -> RunSetup:
    """The run with the descriptions in its folder; no client is asked."""
    describers = describers_of(setup.exp, setup.job)
    if not describers:
        return setup
    store = DescriptionStore(folder / DESCRIPTIONS, identity, held=False)
    for describer in describers:
        if not all((repr(describer), client) in store for client in setup.registry.clients):
            raise RunError(
                f"{folder}: the client descriptions from before the first round ({describer}) are "
                f"incomplete. `fedflat resume {folder}` requests them again if the run has not "
                "ended."
            )
    return with_descriptions(setup, describers, store)


def with_descriptions(
    setup: RunSetup, describers: Sequence[Describer], store: DescriptionStore
) -> RunSetup:
    """The run with all descriptions: groups and attackers are determined and checked."""
    exp, job, clients, fleet = setup.exp, setup.job, setup.registry.clients, fleet_of(setup.exp)
    descriptions = {one: store.descriptions(repr(one), clients) for one in describers}
    spent = Ledger(clock=None if fleet is None else 0.0)
    for one in describers:
        spent = _with(spent, [store.cost(repr(one), client) for client in clients], fleet)
        each = 0 if exp.method.pooled else len(clients)
        spent = spent.plus(models_s2c=each * one.needs_model, models_c2s=each * one.models)
    shared = {}
    for piece in job.pieces:
        if piece.describers:
            named = piece.shared_with_clients(descriptions)
            shared[piece.key] = {
                name: tensor.to(job.learner.device) for name, tensor in named.items()
            }
            spent = spent.plus(down=len(clients) * sum(tensor.nbytes for tensor in named.values()))
    population = setup.server.population.with_descriptions(descriptions)
    if exp.topology.describers:
        check_population(exp, setup.registry, population)
    attackers = attackers_of(exp, setup.fed, job.learner, population)
    return replace(
        setup,
        server=replace(setup.server, population=population),
        job=attacked(replace(job, shared=shared), attackers),
        initial_cost=spent,
    )


def _with(spent: Ledger, costs: Sequence[Ledger], fleet: Fleet | None) -> Ledger:
    """Add the costs of all clients; simulated time is that of the slowest."""
    for cost in costs:
        spent = spent.plus(down=cost.down, up=cost.up, samples=cost.samples).with_time(
            cost.training, cost.seconds
        )
    if fleet is None or spent.clock is None:
        return spent
    seconds = (
        fleet.seconds(client, cost.samples, cost.down, cost.up) for client, cost in enumerate(costs)
    )
    return spent.until(spent.clock + max(seconds))


def _broadcast(setup: RunSetup, describer: Describer, earlier: TrainFirst) -> Broadcast:
    """The broadcast to all clients: a fresh model, or a probe trained on the server's own data."""
    model = setup.job.learner.initial()
    if describer.probe:
        start = Pretrained(rounds=describer.probe, keep=MATCHING)
        model = fit_weights(
            earlier(start.experiment(setup.exp), f"{DESCRIPTIONS}/probe-{describer.probe}"),
            setup.job.learner,
            start,
        )
    return Broadcast(
        0,
        model.params,
        model.buffers,
        setup.exp.lr(0),
        instruction=Describe(describer),
        commit=False,
    )


def _replies(pool: Pool, broadcast: Broadcast, clients: Sequence[int]) -> Iterator[Reply]:
    """The replies of all these clients; a missing one is an error."""
    requests = [
        Request(client, broadcast, {}, f"before/{broadcast.instruction}/{client}")
        for client in clients
    ]
    ids = {request.id: request.client for request in requests}
    for outcome in match_replies(pool.run(requests), ids, broadcast, each=True):
        if isinstance(outcome, ClientFailure):
            raise outcome.error or FedflatError(
                f"before the first round: {outcome}, and the run needs a description from every "
                "client. Continue with `fedflat resume`, which requests only the missing ones."
            )
        reply = outcome[0]
        assert isinstance(reply, Reply)
        if not reply.finite:
            raise NotFinite(
                f"before the first round, client {reply.client}: its description "
                f"({broadcast.instruction}) is NaN or infinite. Lower the learning rate or clip "
                "gradients."
            )
        yield reply
