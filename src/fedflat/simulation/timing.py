"""Simulated time: when clients answer, which of them answer in time, and when an exchange ends.

Work is counted in gradients of single examples: two where SAM takes two, and those of full
gradients too. Of what is sent, all vectors of the model's size count; the few numbers that a reply
may have besides do not. So the end of a request is known beforehand, and a client that would be
cut off need not train.

All chains start at the same time. In a chain, a client starts when the one before it has finished
computing. The model is then forwarded, and both clients must be available until it has arrived. The
last client sends its reply to the server.

    deadline    a chain whose reply would come later is dropped at the deadline; the client that
                has the model then is late
    away        a client that is unavailable when it should receive the model, or that leaves before
                it has finished, ends its chain; the server notices at that moment
    extra       the server waits for the first k / (1 + extra) of k chains, rounded down; then the
                exchange ends, and the other chains are dropped as surplus
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

from fedflat.client.training import ClientJob
from fedflat.core.failures import AWAY, LATE
from fedflat.core.messages import Broadcast
from fedflat.errors import FedflatError
from fedflat.server.client_selection import Chain
from fedflat.server.exchange import SlotExchange, Unanswered
from fedflat.server.replies import ReplyCollector
from fedflat.simulation.clock import Fleet
from fedflat.topologies.server_models import ServerModels

RequestKey = tuple[int, int]
"""A client, and how often it occurs earlier in its chain."""


@dataclass(frozen=True)
class ClientLeg:
    """The part of one client in a chain."""

    client: int
    down: float
    """Bytes it receives, from the server or from the client before it."""
    work: float
    """Gradients of single examples that it computes."""


@dataclass(frozen=True)
class ChainPlan:
    """A chain of clients with the sizes of its messages and its work."""

    legs: Sequence[ClientLeg]
    up: float
    """Bytes that its last client sends to the server."""


@dataclass(frozen=True)
class Completion:
    """The end of a chain."""

    at: float
    """When its reply arrives, or when the server knows that none will."""
    request: RequestKey | None = None
    """The client that failed, if no reply arrives."""
    reason: str = ""
    why: str = ""
    would: float = inf
    """When its reply would have arrived if the server had waited."""
    free: Mapping[int, float] = field(default_factory=dict)
    """When each of its clients has finished its part."""


@dataclass(frozen=True)
class Timetable:
    """An exchange in simulated time."""

    over: float
    """When it ends."""
    ended: Sequence[Completion]
    """The end of each chain."""
    surplus: frozenset[int] = frozenset()
    """Indices of the chains that the server does not wait for."""
    lost: Mapping[RequestKey, Completion] = field(default_factory=dict)
    """The clients that failed in a chain that was needed."""


def timetable(
    fleet: Fleet,
    t: int,
    start: float,
    chains: Sequence[ChainPlan],
    *,
    choose: bool = True,
    busy: Mapping[int, float] | None = None,
) -> Timetable:
    """Return the timetable of the exchange of round `t` that begins at `start`.

    choose
        If True, the server waits for the first replies only, as `Clock.extra` says.
    busy
        For clients in other chains, the time until which they are busy. They start afterwards.
    """
    ended = [_run_chain(fleet, t, start, way, busy or {}) for way in chains]
    needed = fleet.clock.waited_for(len(chains)) if choose else len(chains)
    arrivals = sorted((one.at, place) for place, one in enumerate(ended) if one.request is None)
    if len(arrivals) >= needed:
        first = frozenset(place for _, place in arrivals[:needed])
        return Timetable(arrivals[needed - 1][0], ended, frozenset(range(len(chains))) - first)
    lost = {one.request: one for one in ended if one.request is not None}
    return Timetable(max(one.at for one in ended), ended, lost=lost)


def _run_chain(
    fleet: Fleet, t: int, start: float, chain: ChainPlan, busy: Mapping[int, float]
) -> Completion:
    """Simulate one chain until its reply or its failure."""
    deadline = inf if fleet.clock.deadline is None else start + fleet.clock.deadline
    failure, free, clients = None, dict[int, float](), [leg.client for leg in chain.legs]
    request_at = max(start, busy.get(clients[0], start))
    for place, leg in enumerate(chain.legs):
        device = fleet[leg.client]
        received = request_at + (
            _transfer_seconds(fleet, chain, place) if place else device.receives(leg.down)
        )
        done = received + device.computes(leg.work)
        if place + 1 < len(clients):
            begins = max(done, busy.get(clients[place + 1], done))
            sent = begins + _transfer_seconds(fleet, chain, place + 1)
        else:
            begins, sent = done, done + device.sends(chain.up)
        request = leg.client, clients[:place].count(leg.client)
        failure = failure or _failure(fleet, t, request, request_at, sent, deadline, start)
        free[leg.client], request_at = min(sent, failure.at) if failure else sent, begins
    return (
        Completion(sent, would=sent, free=free)
        if failure is None
        else replace(failure, would=sent, free=free)
    )


def _transfer_seconds(fleet: Fleet, chain: ChainPlan, place: int) -> float:
    """Return the time to forward the model within a chain. 0 from a client to itself."""
    previous, leg = chain.legs[place - 1], chain.legs[place]
    return (
        0.0
        if previous.client == leg.client
        else fleet[previous.client].forwards(fleet[leg.client], leg.down)
    )


def _failure(
    fleet: Fleet,
    t: int,
    request: RequestKey,
    request_at: float,
    sent: float,
    deadline: float,
    start: float,
) -> Completion | None:
    """Return how a client fails, given the times of its request and reply; or None."""
    until = fleet.until(request[0], t, request_at)
    if request_at < deadline and until is None:
        return Completion(
            request_at,
            request,
            AWAY,
            f"when it was requested, {_seconds(request_at - start)} after the exchange began",
        )
    if until is not None and until < min(sent, deadline):
        return Completion(
            until, request, AWAY, f"it left {_seconds(until - start)} after the exchange began"
        )
    if sent > deadline:
        why = (
            f"its part would have ended after {_seconds(sent - start)}, "
            f"the deadline is {_seconds(deadline - start)}"
        )
        return Completion(deadline, request, LATE, why)
    return None


def _seconds(seconds: float) -> str:
    return f"{seconds:.4g} s"


@dataclass
class _SlotTime:
    clock: float = 0.0
    """Simulated seconds when the slot's last exchange ended."""
    chosen: bool = False
    """Whether the first chains have been chosen, where more than needed were asked."""


@dataclass(frozen=True)
class ClientWorkload:
    """How much a client computes and sends for a request."""

    job: ClientJob
    size: Callable[[int], int]
    """Number of training examples of a client."""
    private_size: int
    """Number of parameters that stay with the clients."""

    def gradients(self, broadcast: Broadcast, client: int) -> int:
        """Gradients of single examples that a client computes for a request."""
        instruction, examples = broadcast.instruction, self.size(client)
        samples = self.job.local.samples(broadcast.round, client, examples)
        return instruction.work(instruction.job(self.job), examples, samples)

    def reply_bytes(self, broadcast: Broadcast) -> int:
        """Bytes of a reply to a broadcast: all vectors of the model's size."""
        ask, size = broadcast.instruction, broadcast.params.element_size()
        own = self.private_size if ask.trains else 0
        more = sum(piece.upload_vectors for piece in self.job.pieces) if ask.trains else 0
        return (
            size * ((ask.upload_vectors + more) * broadcast.params.numel() - own)
            + ask.upload_vectors * broadcast.buffers.nbytes
        )


class SimulatedTime:
    """The simulated time of one round: `plan` is called before each broadcast (`Exchange.plan`).

    Args:
        before: simulated seconds before the first round, in which clients described themselves.
        patient: wait for all clients: no deadlines, and no client is away.
    """

    def __init__(
        self,
        collector: ReplyCollector,
        fleet: Fleet,
        work: ClientWorkload,
        server: ServerModels,
        before: float,
        *,
        patient: bool = False,
    ) -> None:
        self.collector, self.work, self.server = collector, work, server
        self.fleet = fleet.patient if patient else fleet
        self._before, self._start = before, collector.ledger.clock or 0.0
        self._clocks_set = False
        self._slots: dict[str, _SlotTime] = {}

    def plan(self, slot_exchange: SlotExchange, broadcast: Broadcast) -> Unanswered:
        """Let the time of an exchange pass; returns the requests that will have no answer.

        Chains that were asked and are not needed are removed from ``slot_exchange``.
        """
        if broadcast.instruction.trains and self._asynchronous_time(broadcast.round):
            return {}
        if slot_exchange.count == 1:
            self._slots[slot_exchange.slot] = _SlotTime(
                self._begins(slot_exchange.slot, broadcast.round)
            )
        slot = self._slots.setdefault(slot_exchange.slot, _SlotTime())
        choose = broadcast.instruction.trains and not slot.chosen
        busy = {int(client): until for client, until in self.collector.ledger.busy.items()}
        sent = partial(self.collector.bytes_to, slot_exchange.missing_model)
        plan = plan_exchange(
            self.work,
            self.fleet,
            slot.clock,
            broadcast,
            slot_exchange.chains_for(broadcast),
            sent,
            choose=choose,
            busy=busy,
        )
        slot.clock, slot.chosen = plan.over, slot.chosen or choose
        self.collector.advance_clock(
            plan.over, slot_exchange.slot if len(self.server.slots) > 1 else None
        )
        if self.server.share_clients:
            free = {client: at for one in plan.ended for client, at in one.free.items()}
            self.collector.set_busy({**busy, **free})
        for place in plan.surplus:
            self.collector.count_sent(
                sent(slot_exchange.chains[place][0], broadcast), broadcast.models
            )
        slot_exchange.chains = [
            chain for place, chain in enumerate(slot_exchange.chains) if place not in plan.surplus
        ]
        return {key: (one.reason, one.why) for key, one in plan.lost.items()}

    def _asynchronous_time(self, t: int) -> bool:
        """Advance the clock by the topology's own times, if it has some."""
        ends = self.server.topology.end_times(self.server.population, t)
        if ends is None:
            return False
        self.collector.advance_clock(self._before + ends)
        return True

    def _begins(self, slot: str, t: int) -> float:
        """When a slot's first exchange of round ``t`` begins.

        Slots have clocks of their own between two merges.
        """
        if len(self.server.slots) == 1:
            return self._start
        if not self._clocks_set and (
            t == 0 or self.server.topology.merges_after(self.server.population, t - 1)
        ):
            self.collector.set_clocks(dict.fromkeys(self.server.slots, self._start))
            self._clocks_set = True
        return self.collector.ledger.clocks.get(slot, self._start)


def plan_exchange(
    work: ClientWorkload,
    fleet: Fleet,
    start: float,
    broadcast: Broadcast,
    chains: Sequence[Chain],
    sent: Callable[[int, Broadcast], int],
    *,
    choose: bool,
    busy: Mapping[int, float] | None = None,
) -> Timetable:
    """The timetable of an exchange along chains that begins at ``start``, in simulated seconds.

    ``sent`` returns the bytes that a client is sent. ``choose`` keeps only the first chains, where
    more than needed were asked. ``busy`` says until when clients work for other slots.
    """
    onward = replace(broadcast, repeat=False)
    up = work.reply_bytes(broadcast)
    ways = [
        ChainPlan(
            [
                ClientLeg(
                    client,
                    sent(client, onward if place else broadcast),
                    work.gradients(broadcast, client),
                )
                for place, client in enumerate(chain)
            ],
            up,
        )
        for chain in chains
    ]
    found = timetable(fleet, broadcast.round, start, ways, choose=choose, busy=busy)
    if len(found.lost) == len(chains):
        raise FedflatError(f"round {broadcast.round + 1}: {_no_client(fleet, start, found)}")
    return found


def _no_client(fleet: Fleet, start: float, found: Timetable) -> str:
    late = [one.would - start for one in found.lost.values() if one.reason == LATE]
    if not late:
        return (
            "none of those who were asked stayed until its reply was sent. Ask more clients a "
            "round (--clients-per-round, or extra=... in the clock), or let them stay longer."
        )
    among = "no client met" if len(late) == len(found.lost) else "of the available clients none met"
    return (
        f"{among} the deadline of {fleet.clock.deadline:g} s; the first reply would have come "
        f"after {min(late):.4g} s. Set a later deadline, give clients less to do, or ask more "
        "clients a round."
    )
