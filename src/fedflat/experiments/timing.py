"""Exchanges by the run's clock: what each visit computes and what is sent, known before it is made.

Work is counted in gradients of single examples, two of them where SAM takes two, gradients over all
of a client's data among it. Of what is sent everything counts that has the model's size; the few
numbers that a reply may have besides do not. So it is known beforehand when a visit would end, and
one that would be cut off need not be made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fedflat.core.failures import LATE
from fedflat.core.instruction import Instruction
from fedflat.core.messages import Broadcast
from fedflat.errors import FedflatError
from fedflat.experiments.prepare import PreparedRun
from fedflat.simulation.clock import Fleet
from fedflat.simulation.timetable import ChainPlan, ClientLeg, Timetable, timetable
from fedflat.topologies.population import Chain


def work_of(prepared: PreparedRun, ask: Instruction, t: int, client: int) -> int:
    """Gradients of single examples that a client takes in a visit of round ``t``."""
    examples = prepared.registry.size(client)
    return ask.work(
        ask.job(prepared.job), examples, prepared.exp.local.samples(t, client, examples)
    )


def plan_exchange(
    prepared: PreparedRun,
    fleet: Fleet,
    start: float,
    broadcast: Broadcast,
    chains: Sequence[Chain],
    sent: Callable[[int, Broadcast], int],
    *,
    choose: bool,
    busy: Mapping[int, float] | None = None,
) -> Timetable:
    """The exchange of a mail along these chains, from ``start`` on; ``sent`` says what bytes a
    client is sent."""
    onward = replace(broadcast, repeat=False)
    up = reply_bytes(prepared, broadcast)
    ways = [
        ChainPlan(
            [
                ClientLeg(
                    client,
                    sent(client, onward if place else broadcast),
                    work_of(prepared, broadcast.instruction, broadcast.round, client),
                )
                for place, client in enumerate(chain)
            ],
            up,
        )
        for chain in chains
    ]
    found = timetable(fleet, broadcast.round, start, ways, choose=choose, busy=busy)
    if len(found.lost) == len(chains):
        raise FedflatError(f"round {broadcast.round}: {_nobody(fleet, start, found)}")
    return found


def reply_bytes(prepared: PreparedRun, broadcast: Broadcast) -> int:
    """Bytes of a reply to a mail, of all that has the model's size."""
    ask, size = broadcast.instruction, broadcast.params.element_size()
    own = prepared.private_size if ask.trains else 0
    more = sum(piece.upload_vectors for piece in prepared.job.pieces) if ask.trains else 0
    return (
        size * ((ask.upload_vectors + more) * broadcast.params.numel() - own)
        + ask.upload_vectors * broadcast.buffers.nbytes
    )


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
