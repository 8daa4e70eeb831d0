"""Chooses the exchange of a run: by its topology, its clock and its attack."""

from __future__ import annotations

from fedflat.core.messages import Broadcast
from fedflat.execution.client_pool import ClientPool
from fedflat.execution.client_states import ClientStates
from fedflat.experiments.async_exchange import AsyncExchange
from fedflat.experiments.attack_observation import ObservedReplies
from fedflat.experiments.callbacks import RoundCallback
from fedflat.experiments.chain_exchange import ChainExchange
from fedflat.experiments.exchange import Exchange, Plan, every_client_answers
from fedflat.experiments.prepare import PreparedRun
from fedflat.experiments.replies import ReplyCollector
from fedflat.experiments.state import Ledger
from fedflat.experiments.timing import SimulatedTime
from fedflat.server.averaging import AverageState


def exchange_class(prepared: PreparedRun) -> type[Exchange]:
    """The kind of exchange that the topology needs."""
    topology = prepared.exp.topology
    if not topology.synchronous:
        return AsyncExchange
    return ChainExchange if topology.has_chains else Exchange


def open_exchange(
    prepared: PreparedRun,
    pool: ClientPool,
    t: int,
    clients: ClientStates,
    averages: dict[str, AverageState],
    ledger: Ledger,
    callback: RoundCallback | None = None,
    in_flight: dict[int, Broadcast] | None = None,
    *,
    patient: bool = False,
) -> Exchange:
    """The exchange of round ``t``, which stages ``clients`` and adds to ``averages``.

    Args:
        ledger: the cost of the run before the round.
        in_flight: broadcasts of earlier rounds that clients still work on (`Exchange.in_flight`).
        patient: wait for all clients, whatever the deadline of the run's clock.
    """
    attack = prepared.exp.attack
    observed = attack is not None and attack.observes_broadcasts
    collector = (ObservedReplies if observed else ReplyCollector)(
        prepared, t, clients, averages, ledger, callback or RoundCallback()
    )
    plan: Plan = every_client_answers
    if prepared.fleet is not None:
        plan = SimulatedTime(collector, prepared.fleet, patient=patient).plan
    return exchange_class(prepared)(pool, collector, plan, in_flight or {})
