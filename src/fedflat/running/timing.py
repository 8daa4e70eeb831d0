"""Exchanges by the run's clock: what each visit computes and what is sent, known before it is made.

Work is counted in gradients of single examples, two of them where SAM takes two, gradients over all of a client's data
among it. Of what is sent everything counts that has the model's size; the few numbers that a reply may have besides do
not. So it is known beforehand when a visit would end, and one that would be cut off need not be made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fedflat.clock.clock import Fleet
from fedflat.clock.timetable import Leg, Timetable, Way, timetable
from fedflat.engine.ask import Ask
from fedflat.engine.mail import Mail
from fedflat.engine.missing import LATE
from fedflat.errors import FedflatError
from fedflat.running.prepare import Ready
from fedflat.topology.crowd import Chain


def work_of(ready: Ready, ask: Ask, t: int, client: int) -> int:
    """Gradients of single examples that a client takes in a visit of round ``t``."""
    examples = ready.roster.size(client)
    return ask.work(ask.job(ready.job), examples, ready.exp.local.samples(t, client, examples))


def planned(
    ready: Ready, fleet: Fleet, start: float, mail: Mail, chains: Sequence[Chain], sent: Callable[[int, Mail], int],
    *, choose: bool, busy: Mapping[int, float] | None = None,
) -> Timetable:  # fmt: skip
    """The exchange of a mail along these chains, from ``start`` on; ``sent`` says what bytes a client is sent."""
    onward = replace(mail, repeat=False)
    up = reply_bytes(ready, mail)
    ways = [
        Way(
            [
                Leg(client, sent(client, onward if place else mail), work_of(ready, mail.ask, mail.round, client))
                for place, client in enumerate(chain)
            ],
            up,
        )
        for chain in chains
    ]
    found = timetable(fleet, mail.round, start, ways, choose=choose, busy=busy)
    if len(found.lost) == len(chains):
        raise FedflatError(f"round {mail.round}: {_nobody(fleet, start, found)}")
    return found


def reply_bytes(ready: Ready, mail: Mail) -> int:
    """Bytes of a reply to a mail, of all that has the model's size."""
    ask, size = mail.ask, mail.params.element_size()
    own = ready.withheld if ask.trains else 0
    more = sum(piece.up for piece in ready.job.pieces) if ask.trains else 0
    return size * ((ask.up + more) * mail.params.numel() - own) + ask.up * mail.buffers.nbytes


def _nobody(fleet: Fleet, start: float, found: Timetable) -> str:
    """Why no reply comes of an exchange, and what to change."""
    late = [one.would - start for one in found.lost.values() if one.reason == LATE]
    if not late:
        return (
            "none of those who were asked stayed until its reply was sent. Ask more clients a round "
            "(--clients-per-round, or extra=... in the clock), or let them stay longer."
        )
    among = "nobody met" if len(late) == len(found.lost) else "of those who were there nobody met"
    return (
        f"{among} the deadline of {fleet.clock.deadline:g} s; the first reply would have come after {min(late):.4g} s. "
        "Set a later deadline, give clients less to do, or ask more clients a round."
    )
