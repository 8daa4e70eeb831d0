"""When the visits of an exchange would have ended on the clients' devices, and who would not have come.

All chains start at once. In a chain one client begins when the one before it has computed: the model is then handed on,
and both must be there until it has come. The last one sends its reply to the server.

    deadline    a chain whose reply would come later is cut off at the deadline; the client that has it then is late
    away        a client that is away when it should be sent something, or leaves before it is done, ends its chain; the
                server notices at that moment
    extra       of k chains that were asked the first k / (1 + extra), rounded down, are waited for; then the exchange
                is over, and the others are cut off: they are not needed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from fedflat.clock.clock import Fleet
from fedflat.engine.missing import AWAY, LATE


@dataclass(frozen=True)
class Leg:
    """One client's part of a chain."""

    client: int
    down: float
    """Bytes it is sent, by the server or by the client before it."""
    work: float
    """Gradients of single examples that it takes."""


@dataclass(frozen=True)
class Way:
    """A chain, as far as the clock must know it."""

    legs: Sequence[Leg]
    up: float
    """Bytes that its last client sends to the server."""


@dataclass(frozen=True)
class Ended:
    """What becomes of a chain."""

    at: float
    """When its reply comes, or when the server knows that none will."""
    client: int | None = None
    """Who did not do its part, if no reply comes."""
    reason: str = ""
    why: str = ""
    would: float = inf
    """When its reply would have come if the server had waited."""


@dataclass(frozen=True)
class Timetable:
    """An exchange in simulated time."""

    over: float
    """When it ends."""
    ended: Sequence[Ended]
    """What becomes of each chain."""
    surplus: frozenset[int] = frozenset()
    """The places of the chains that were asked and are not needed."""
    lost: dict[int, Ended] = field(default_factory=dict)
    """Clients that do not do their part in a chain that was needed."""


def timetable(fleet: Fleet, t: int, start: float, ways: Sequence[Way], *, choose: bool = True) -> Timetable:
    """The exchange of round ``t`` that begins at ``start``; if ``choose``, not all who were asked are waited for."""
    ended = [_along(fleet, t, start, way) for way in ways]
    wanted = fleet.clock.waited_for(len(ways)) if choose else len(ways)
    came = sorted((one.at, place) for place, one in enumerate(ended) if one.client is None)
    if len(came) >= wanted:
        first = frozenset(place for _, place in came[:wanted])
        return Timetable(came[wanted - 1][0], ended, frozenset(range(len(ways))) - first)
    lost = {one.client: one for one in ended if one.client is not None}
    return Timetable(max(one.at for one in ended), ended, lost=lost)


def _along(fleet: Fleet, t: int, start: float, way: Way) -> Ended:
    """Follow one chain, to its reply or to where it breaks off."""
    deadline = inf if fleet.clock.deadline is None else start + fleet.clock.deadline
    asked, broken = start, None
    for place, leg in enumerate(way.legs):
        device = fleet[leg.client]
        before = fleet[way.legs[place - 1].client] if place else None
        got = asked + (before.hands_on(device, leg.down) if before else device.receives(leg.down))
        done = got + device.computes(leg.work)
        after = way.legs[place + 1] if place + 1 < len(way.legs) else None
        sent = done + (device.hands_on(fleet[after.client], after.down) if after else device.sends(way.up))
        broken = broken or _broken(fleet, t, leg.client, asked, sent, deadline, start)
        asked = done
    if broken is None:
        return Ended(sent, would=sent)
    return Ended(broken.at, broken.client, broken.reason, broken.why, would=sent)


def _broken(
    fleet: Fleet, t: int, client: int, asked: float, sent: float, deadline: float, start: float
) -> Ended | None:  # fmt: skip
    """How a client fails that is asked and would have sent at these times, if it does."""
    until = fleet.until(client, t, asked)
    if asked < deadline and until is None:
        return Ended(asked, client, AWAY, f"when it was asked, {_span(asked - start)} after the exchange began")
    if until is not None and until < min(sent, deadline):
        return Ended(until, client, AWAY, f"it left {_span(until - start)} after the exchange began")
    if sent > deadline:
        takes = f"its part would have ended after {_span(sent - start)}, the deadline is {_span(deadline - start)}"
        return Ended(deadline, client, LATE, takes)
    return None


def _span(seconds: float) -> str:
    return f"{seconds:.4g} s"
