"""When the visits of an exchange would have ended on the clients' devices, and who would not have
come.

All chains start at once. In a chain one client begins when the one before it has computed: the
model is then handed on, and both must be there until it has come. The last one sends its reply to
the server.

    deadline    a chain whose reply would come later is cut off at the deadline; the client that has it then is late
    away        a client that is away when it should be sent something, or leaves before it is done, ends its chain; the
                server notices at that moment
    extra       of k chains that were asked the first k / (1 + extra), rounded down, are waited for; then the exchange
                is over, and the others are cut off: they are not needed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from fedflat.core.failures import AWAY, LATE
from fedflat.simulation.clock import Fleet

VisitKey = tuple[int, int]
"""A client, and how often its chain has been there before."""


@dataclass(frozen=True)
class ClientLeg:
    """One client's part of a chain."""

    client: int
    down: float
    """Bytes it is sent, by the server or by the client before it."""
    work: float
    """Gradients of single examples that it takes."""


@dataclass(frozen=True)
class ChainPlan:
    """A chain, as far as the clock must know it."""

    legs: Sequence[ClientLeg]
    up: float
    """Bytes that its last client sends to the server."""


@dataclass(frozen=True)
class Completion:
    """What becomes of a chain."""

    at: float
    """When its reply comes, or when the server knows that none will."""
    visit: VisitKey | None = None
    """Who did not do its part, if no reply comes."""
    reason: str = ""
    why: str = ""
    would: float = inf
    """When its reply would have come if the server had waited."""
    free: Mapping[int, float] = field(default_factory=dict)
    """When each of its clients has done its part."""


@dataclass(frozen=True)
class Timetable:
    """An exchange in simulated time."""

    over: float
    """When it ends."""
    ended: Sequence[Completion]
    """What becomes of each chain."""
    surplus: frozenset[int] = frozenset()
    """The places of the chains that were asked and are not needed."""
    lost: Mapping[VisitKey, Completion] = field(default_factory=dict)
    """Visits that are not made, or not to their end, in a chain that was needed."""


def timetable(
    fleet: Fleet,
    t: int,
    start: float,
    ways: Sequence[ChainPlan],
    *,
    choose: bool = True,
    busy: Mapping[int, float] | None = None,
) -> Timetable:
    """The exchange of round ``t`` that begins at ``start``; if ``choose``, not all who were asked
    are waited for.

    Who is still ``busy`` until some time with other chains begins then.
    """
    ended = [_along(fleet, t, start, way, busy or {}) for way in ways]
    wanted = fleet.clock.waited_for(len(ways)) if choose else len(ways)
    came = sorted((one.at, place) for place, one in enumerate(ended) if one.visit is None)
    if len(came) >= wanted:
        first = frozenset(place for _, place in came[:wanted])
        return Timetable(came[wanted - 1][0], ended, frozenset(range(len(ways))) - first)
    lost = {one.visit: one for one in ended if one.visit is not None}
    return Timetable(max(one.at for one in ended), ended, lost=lost)


def _along(
    fleet: Fleet, t: int, start: float, way: ChainPlan, busy: Mapping[int, float]
) -> Completion:
    """Follow one chain, to its reply or to where it breaks off."""
    deadline = inf if fleet.clock.deadline is None else start + fleet.clock.deadline
    broken, free, clients = None, dict[int, float](), [leg.client for leg in way.legs]
    asked = max(start, busy.get(clients[0], start))
    for place, leg in enumerate(way.legs):
        device = fleet[leg.client]
        got = asked + (_handed(fleet, way, place) if place else device.receives(leg.down))
        done = got + device.computes(leg.work)
        if place + 1 < len(clients):
            begins = max(done, busy.get(clients[place + 1], done))
            sent = begins + _handed(fleet, way, place + 1)
        else:
            begins, sent = done, done + device.sends(way.up)
        visit = leg.client, clients[:place].count(leg.client)
        broken = broken or _broken(fleet, t, visit, asked, sent, deadline, start)
        free[leg.client], asked = min(sent, broken.at) if broken else sent, begins
    return (
        Completion(sent, would=sent, free=free)
        if broken is None
        else replace(broken, would=sent, free=free)
    )


def _handed(fleet: Fleet, way: ChainPlan, place: int) -> float:
    """How long it takes to hand the model on to the client at a place of its chain; a client has
    its own already."""
    before, leg = way.legs[place - 1], way.legs[place]
    return (
        0.0
        if before.client == leg.client
        else fleet[before.client].forwards(fleet[leg.client], leg.down)
    )


def _broken(
    fleet: Fleet, t: int, visit: VisitKey, asked: float, sent: float, deadline: float, start: float
) -> Completion | None:
    """How a client fails that is asked and would have sent at these times, if it does."""
    until = fleet.until(visit[0], t, asked)
    if asked < deadline and until is None:
        return Completion(
            asked,
            visit,
            AWAY,
            f"when it was asked, {_span(asked - start)} after the exchange began",
        )
    if until is not None and until < min(sent, deadline):
        return Completion(
            until, visit, AWAY, f"it left {_span(until - start)} after the exchange began"
        )
    if sent > deadline:
        takes = f"its part would have ended after {_span(sent - start)}, the deadline is {_span(deadline - start)}"
        return Completion(deadline, visit, LATE, takes)
    return None


def _span(seconds: float) -> str:
    return f"{seconds:.4g} s"
