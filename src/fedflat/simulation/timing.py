"""Simulated time: when clients answer, which of them answer in time, and when an exchange ends.

Work is counted in gradients of single examples: two where SAM takes two, and those of full
gradients too. Of what is sent, all vectors of the model's size count; the few numbers that a reply
may have besides do not. So the end of a request is known beforehand, and a client that would be
cut off need not train.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fedflat.client.training import ClientJob
from fedflat.core.failures import LATE
from fedflat.core.messages import Broadcast
from fedflat.errors import FedflatError
from fedflat.server.client_selection import Chain
from fedflat.server.exchange import SlotExchange, Unanswered
from fedflat.server.replies import ReplyCollector
from fedflat.simulation.clock import Fleet
from fedflat.simulation.timetable import ChainPlan, ClientLeg, Timetable, timetable
from fedflat.topologies.server_models import ServerModels


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
