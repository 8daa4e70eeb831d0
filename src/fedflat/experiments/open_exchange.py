"""Chooses the exchange of a run, once, before the first round: by topology, clock and attack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from fedflat.client.diagnosis import diagnose
from fedflat.client.training import Request
from fedflat.execution.client_pool import Pool
from fedflat.experiments.population import fleet_of
from fedflat.experiments.prepare import attacked_run
from fedflat.experiments.run_setup import RunSetup
from fedflat.server.exchange import (
    Averages,
    Exchange,
    Exchanges,
    ExchangeSettings,
    OpenCollector,
    address_of,
)
from fedflat.server.replies import ReplySettings
from fedflat.simulation.attacks.attack import ATTACK
from fedflat.simulation.attacks.observation import ObservedReplies
from fedflat.simulation.timing import ClientWorkload, SimulatedTime
from fedflat.topologies.async_exchange import AsyncExchange
from fedflat.topologies.chain_exchange import ChainExchange


def open_exchanges(setup: RunSetup, pool: Pool) -> Exchanges:
    """The exchanges of a run. A star without clock and attack uses the plain classes."""
    exp, job, method = setup.exp, setup.job, setup.exp.method
    found = Exchanges(
        exchange_kind(setup),
        ExchangeSettings(
            {slot: len(clients) for slot, clients in setup.server.slots.items()},
            exp.weighting or method.weighting or "sized",
            method.aggregator,
            address_of(job, setup.registry),
        ),
        ReplySettings(
            exp.min_replies,
            exp.on_bad,
            job.private_size,
            not method.pooled,
            partial(_diagnose, setup),
        ),
        pool,
        setup.server.info,
        method.reply_listeners,
    )
    if exp.attack is not None and exp.attack.observes_broadcasts:
        found = replace(found, collector=_observing(setup))
    fleet = fleet_of(exp)
    if fleet is not None:
        timed = partial(
            SimulatedTime,
            fleet=fleet,
            work=ClientWorkload(job, setup.registry.size, job.private_size),
            server=setup.server,
            before=setup.initial_cost.clock or 0.0,
        )
        found = replace(
            found, plan=lambda collector, patient: timed(collector, patient=patient).plan
        )
    return found


def exchange_kind(setup: RunSetup) -> Callable[..., Exchange]:
    exp, topology = setup.exp, setup.exp.topology
    if not topology.synchronous:
        return partial(AsyncExchange, server=setup.server, lr=exp.lr)
    if not topology.has_chains:
        return Exchange

    def samples(t: int, client: int) -> int:
        return exp.local.samples(t, client, setup.registry.size(client))

    one_exchange = all(piece.oracle_calls == 1 for piece in exp.server_pieces())
    return partial(ChainExchange, samples=samples, one_exchange=one_exchange)


def _observing(setup: RunSetup) -> Callable[[Averages], OpenCollector]:
    attack = setup.exp.attack
    assert attack is not None
    attacked = attacked_run(setup.exp, setup.fed, setup.job.learner, setup.server.population)
    return lambda averages: partial(
        ObservedReplies,
        attack=attack,
        attacked=attacked,
        state=averages.setdefault(ATTACK, {}),
    )


def _diagnose(setup: RunSetup, request: Request) -> str:
    if not setup.fed.here:
        return "where it began is not known here, where the client's data are not"
    return diagnose(setup.job, request, setup.fed.data(request.client))
