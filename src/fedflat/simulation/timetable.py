"""Durations of an exchange on the clients' devices, and which replies would be lost.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from fedflat.core.failures import AWAY, LATE
from fedflat.simulation.clock import Fleet

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
