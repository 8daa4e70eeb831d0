"""One exchange of a star: send a broadcast to a slot's cohort, aggregate the replies.

Chains of clients (`ChainExchange`), an asynchronous server (`AsyncExchange`), simulated time
(`SimulatedTime`) and attacks that observe (`ObservedReplies`) are added by `open_exchange`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TypeVar

from fedflat.client.piece import ClientState
from fedflat.core.messages import Broadcast, Replies, Reply, ReplyBatch, aggregate
from fedflat.execution.client_pool import ClientPool
from fedflat.experiments.replies import ReplyCollector, TooFewReplies, match_replies
from fedflat.experiments.requests import RequestBatch, SlotExchange, Unanswered, with_preceding
from fedflat.experiments.state import Ledger
from fedflat.server.piece import Send
from fedflat.topologies.population import Chain

T = TypeVar("T")
Plan = Callable[[SlotExchange, Broadcast], Unanswered]
"""Called before a broadcast is sent. Returns the requests that will have no answer."""


def every_client_answers(slot_exchange: SlotExchange, broadcast: Broadcast) -> Unanswered:
    """The plan of a run without simulated time."""
    return {}


@dataclass
class Exchange:
    """Sends the broadcasts of a round to clients and aggregates their replies in cohort order."""

    pool: ClientPool
    collector: ReplyCollector
    plan: Plan = every_client_answers
    in_flight: dict[int, Broadcast] = field(default_factory=dict)
    """Broadcasts that clients still work on, by round; only with an asynchronous server."""

    def __post_init__(self) -> None:
        self.prepared, self.clients = self.collector.prepared, self.collector.clients

    @property
    def ledger(self) -> Ledger:
        """The cost of the run so far."""
        return self.collector.ledger

    def run_slots(
        self, selection: Mapping[str, Sequence[Chain]], step: Callable[[str, Send], T]
    ) -> dict[str, T]:
        """Run one server step per slot. Slots with fewer than `min_replies` replies are skipped."""
        return skip_short(
            (slot, partial(step, slot, self.sender(slot, chains)))
            for slot, chains in selection.items()
        )

    def sender(self, slot: str, chains: Sequence[Chain]) -> Send:
        """The function by which a slot sends its broadcasts of a round to these clients."""
        return partial(self.send, SlotExchange(slot, chains))

    def send(self, slot_exchange: SlotExchange, broadcast: Broadcast) -> Replies:
        """Send a broadcast to all clients of a slot, and aggregate their replies."""
        broadcast, unanswered = self.begin(slot_exchange, broadcast)
        requests = self.requests(slot_exchange, broadcast, unanswered)
        return self.aggregate(
            slot_exchange, broadcast, self._replies(slot_exchange, broadcast, requests, unanswered)
        )

    def begin(
        self, slot_exchange: SlotExchange, broadcast: Broadcast
    ) -> tuple[Broadcast, Unanswered]:
        """Begin the next exchange of a slot: the broadcast to send, and who will not answer."""
        self.clients.use_pool(self.pool, broadcast.round)
        broadcast = slot_exchange.last = broadcast.after(slot_exchange.last)
        slot_exchange.count += 1
        return broadcast, self.plan(slot_exchange, broadcast)

    def requests(
        self, slot_exchange: SlotExchange, broadcast: Broadcast, unanswered: Unanswered
    ) -> RequestBatch:
        """Requests to all clients of a slot."""
        cohort = slot_exchange.cohort
        broadcasts = self.broadcasts(broadcast, cohort)
        asked = [
            client
            for client, sent in broadcasts.items()
            if (client, sent.repetition) not in unanswered
        ]
        return slot_exchange.requests(self.clients, broadcasts, asked)

    def broadcasts(self, broadcast: Broadcast, cohort: Sequence[int]) -> dict[int, Broadcast]:
        """The broadcast that each client answers."""
        return dict.fromkeys(cohort, self.address(broadcast, cohort))

    def address(self, broadcast: Broadcast, cohort: Sequence[int]) -> Broadcast:
        """The broadcast as it is sent to a cohort; see `with_preceding`."""
        return with_preceding(broadcast, cohort, self.prepared.job, self.prepared.registry)

    def _replies(
        self,
        slot_exchange: SlotExchange,
        broadcast: Broadcast,
        requests: RequestBatch,
        unanswered: Unanswered,
    ) -> Iterator[Reply | ReplyBatch]:
        single = self.collector.needs_single_replies(broadcast)
        outcomes = match_replies(self.pool.run(requests), requests.ids, broadcast, each=single)
        for outcome in chain(requests.failures(unanswered), outcomes):
            usable = self.collector.accept(slot_exchange, requests, outcome)
            if usable is not None:
                yield self.take(broadcast, requests, *usable)

    def take(
        self,
        broadcast: Broadcast,
        requests: RequestBatch,
        reply: Reply | ReplyBatch,
        state: ClientState,
    ) -> Reply | ReplyBatch:
        """Stage the client state of a reply; returns the reply as it is aggregated."""
        self.collector.take(broadcast, reply, state)
        return reply

    def aggregate(
        self,
        slot_exchange: SlotExchange,
        broadcast: Broadcast,
        replies: Iterable[Reply | ReplyBatch],
    ) -> Replies:
        """Aggregate replies by the method's weighting or aggregator."""
        exp = self.prepared.exp
        combine = exp.method.aggregator and exp.method.aggregator.combine_round
        found = aggregate(
            broadcast,
            self.collector.require_enough(broadcast.round, replies),
            population=len(self.prepared.server.slots[slot_exchange.slot]),
            weighting=exp.weighting or exp.method.weighting or "sized",
            aggregator=partial(combine, broadcast.round) if combine else None,
        )
        self.collector.callback.on_aggregate(found)
        return found


def skip_short(steps: Iterable[tuple[str, Callable[[], T]]]) -> dict[str, T]:
    """Run the steps of slots, without those that have too few replies; an error if all have."""
    done: dict[str, T] = {}
    error: TooFewReplies | None = None
    for slot, step in steps:
        try:
            done[slot] = step()
        except TooFewReplies as short:
            error = short
    if not done and error is not None:
        raise error
    return done
