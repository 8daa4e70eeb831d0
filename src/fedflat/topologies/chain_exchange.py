"""Exchanges along chains: each client is sent the model that the client before it returned.

If the pool can run chains (`ChainPool`), each chain proceeds as soon as its own client is done.
Otherwise all chains proceed in steps that end together. The numbers are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import NoReturn, TypeVar

from fedflat.client.training import Request
from fedflat.core.failures import ClientFailure
from fedflat.core.messages import Broadcast, Replies, Reply, ReplyBatch
from fedflat.execution.client_pool import ChainPool, PoolOutcome
from fedflat.execution.scheduler import Answered
from fedflat.server.client_selection import Chain
from fedflat.server.exchange import Exchange, RequestBatch, SlotExchange, Unanswered, skip_short
from fedflat.server.piece import Send
from fedflat.server.replies import TooFewReplies, commits, match_replies
from fedflat.server.step import first_broadcast
from fedflat.topologies.chain_router import ChainRouter

T = TypeVar("T")
Ended = tuple[RequestBatch, PoolOutcome]
"""How the last request of a chain ended."""


@dataclass(eq=False)
class _Delivery:
    """One broadcast on its way along the chains of a slot."""

    slot_exchange: SlotExchange
    broadcast: Broadcast
    router: ChainRouter
    unanswered: Unanswered
    current: dict[int, RequestBatch] = field(default_factory=dict)
    """The request that each chain is at."""


@dataclass
class ChainExchange(Exchange):
    """Sends broadcasts along chains of clients; the last client of a chain replies for all."""

    samples: Callable[[int, int], int] = lambda t, client: 1
    """Examples that a client trains on in round ``t``, epochs counted."""
    one_exchange: bool = True
    """True if the server makes one exchange per step."""

    def run_slots(
        self, selection: Mapping[str, Sequence[Chain]], step: Callable[[str, Send], T]
    ) -> dict[str, T]:
        """Run one server step per slot, all slots at once if each sends one broadcast.

        To run at once, each step is stopped at its first broadcast, and run again with the replies.
        """
        if len(selection) == 1 or not self.one_exchange or not self._runs_chains:
            return super().run_slots(selection, step)
        deliveries = [
            self._begin_chains(SlotExchange(slot, chains), first_broadcast(partial(step, slot)))
            for slot, chains in selection.items()
        ]
        ended = self._chain_by_chain(deliveries)
        done = skip_short(
            (
                one.slot_exchange.slot,
                partial(step, one.slot_exchange.slot, self._delivered(one, ended)),
            )
            for one in deliveries
        )
        assert next(ended, None) is None
        return done

    def _delivered(self, delivery: _Delivery, ended: Iterator[Ended | None]) -> Send:
        """Collect the replies of a delivery; returns a function that returns them to its step."""
        mine = islice(ended, len(delivery.router.chains))
        try:
            replies = self._aggregate_chains(delivery, mine)
        except TooFewReplies as error:
            return partial(_raise, error)
        return lambda broadcast: replies

    def send(self, slot_exchange: SlotExchange, broadcast: Broadcast) -> Replies:
        """Send a broadcast along all chains of a slot, and aggregate their replies."""
        if not broadcast.instruction.trains:
            return super().send(slot_exchange, broadcast)
        delivery = self._begin_chains(slot_exchange, broadcast)
        at_once = self._runs_chains and delivery.router.longest > 1
        ended = self._chain_by_chain([delivery]) if at_once else self._step_by_step(delivery)
        return self._aggregate_chains(delivery, ended)

    @property
    def _runs_chains(self) -> bool:
        return isinstance(self.pool, ChainPool) and not self.collector.observes_requests

    def _begin_chains(self, slot_exchange: SlotExchange, broadcast: Broadcast) -> _Delivery:
        broadcast, unanswered = self.begin(slot_exchange, broadcast)
        addressed = self.settings.addressed(broadcast, [chain[0] for chain in slot_exchange.chains])
        return _Delivery(
            slot_exchange, broadcast, ChainRouter(addressed, slot_exchange.chains), unanswered
        )

    def _aggregate_chains(self, delivery: _Delivery, ended: Iterable[Ended | None]) -> Replies:
        replies = self._chain_replies(delivery, ended)
        return self.aggregate(delivery.slot_exchange, delivery.broadcast, replies)

    def _chain_replies(
        self, delivery: _Delivery, ended: Iterable[Ended | None]
    ) -> Iterator[Reply | ReplyBatch]:
        """The replies of whole chains, without those that were broken off."""
        for requests, outcome in filter(None, ended):
            usable = self._accept(delivery, requests, outcome, last=True)
            if usable is None:
                continue
            reply, state = usable
            if isinstance(reply, Reply):
                reply = delivery.router.chain_reply(reply)
            self.collector.take(delivery.broadcast, reply, state)
            yield reply

    def _accept(
        self, delivery: _Delivery, requests: RequestBatch, outcome: PoolOutcome, *, last: bool
    ) -> Answered | None:
        """Accept an outcome; a chain whose client has no usable reply is broken off."""
        answer = outcome if isinstance(outcome, ClientFailure) else outcome[0]
        client = answer.clients[0] if isinstance(answer, ReplyBatch) else answer.client
        usable = self.collector.accept(
            delivery.slot_exchange.missing_model,
            requests,
            outcome,
            from_client=not delivery.router.starts_chain(client),
            to_client=not last,
        )
        if usable is None:
            delivery.router.abort(client)
        return usable

    def _forward(self, delivery: _Delivery, requests: RequestBatch, outcome: PoolOutcome) -> None:
        """Accept the outcome of a client in the middle of its chain."""
        usable = self._accept(delivery, requests, outcome, last=False)
        if usable is None:
            return
        reply, state = usable
        assert isinstance(reply, Reply)
        if commits(requests.broadcast_to(reply.client)):
            self.collector.stage(reply, state)
        delivery.router.forward(reply)

    def _step_by_step(self, delivery: _Delivery) -> Iterator[Ended]:
        """The last requests of all chains, which proceed together."""
        slot_exchange, router, unanswered = (
            delivery.slot_exchange,
            delivery.router,
            delivery.unanswered,
        )
        for step in router:
            cohort = [
                client
                for client, sent in step.broadcasts.items()
                if (client, sent.repetition) not in unanswered
            ]
            requests = slot_exchange.requests(self.clients, step.broadcasts, cohort)
            each = not step.last or self.collector.needs_single_replies(delivery.broadcast)
            outcomes = match_replies(
                self.pool.run(requests), requests.ids, delivery.broadcast, each=each
            )
            for outcome in chain(requests.failures(unanswered), outcomes):
                if step.last:
                    yield requests, outcome
                else:
                    self._forward(delivery, requests, outcome)

    def _chain_by_chain(self, deliveries: Sequence[_Delivery]) -> Iterator[Ended | None]:
        """The last requests of all chains, in order; None for a chain that was broken off."""
        assert isinstance(self.pool, ChainPool)
        before = len(self.collector.failures)
        chains = [(one, place) for one in deliveries for place in range(len(one.router.chains))]
        started = [one for one in chains if self._next_request(*one)]

        def then(at: int, outcome: PoolOutcome) -> Request | None:
            return self._continue(*started[at], outcome)

        def left(at: int, done: int) -> float:
            delivery, place = started[at]
            t, clients = delivery.broadcast.round, delivery.router.chains[place][done:]
            return sum(self.samples(t, client) for client in clients)

        first = [one.current[place][0] for one, place in started]
        running = set(started)
        outcomes = self.pool.run_chains(first, then, left)
        for delivery, place in chains:
            outcome = next(outcomes) if (delivery, place) in running else None
            if outcome is None or place in delivery.router.broken:
                yield None
            else:
                yield delivery.current[place], self._matched(delivery, place, outcome)
        assert next(outcomes, None) is None
        order = [client for one, place in chains for client in one.router.chains[place]]
        self.collector.order_failures(before, order)

    def _continue(self, delivery: _Delivery, place: int, outcome: PoolOutcome) -> Request | None:
        """The next request of a chain; None at its end."""
        if len(delivery.router.remaining(place)) == 1:
            if isinstance(outcome, ClientFailure):  # fail now, not when earlier chains have ended
                self.collector.check_failure(outcome)
            return None
        outcome = self._matched(delivery, place, outcome)
        self._forward(delivery, delivery.current[place], outcome)
        if place in delivery.router.broken or not self._next_request(delivery, place):
            return None
        return delivery.current[place][0]

    def _matched(self, delivery: _Delivery, place: int, outcome: PoolOutcome) -> PoolOutcome:
        ids = delivery.current[place].ids
        [one] = match_replies([outcome], ids, delivery.broadcast, each=True)
        return one

    def _next_request(self, delivery: _Delivery, place: int) -> bool:
        """Make the next request of a chain; False if its client will not answer."""
        client, sent = delivery.router.next(place)
        requests = delivery.slot_exchange.requests(self.clients, {client: sent}, [client])
        delivery.current[place] = requests
        for failure in requests.failures(delivery.unanswered):
            self._forward(delivery, requests, failure)
        return place not in delivery.router.broken


def _raise(error: Exception, broadcast: Broadcast) -> NoReturn:
    raise error
