"""One round's exchanges: letters along chains of clients, by the clock if there is one, and replies
folded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import NoReturn, TypeVar

from fedflat.client.training import Request
from fedflat.core.failures import ClientFailure
from fedflat.core.messages import Broadcast, Replies, Reply, ReplyBatch, aggregate
from fedflat.execution.client_pool import ChainPool, ClientPool, PoolOutcome
from fedflat.experiments.chain_router import ChainRouter
from fedflat.experiments.failures import TooFewReplies, match_replies
from fedflat.experiments.replies import ReplyCollector, clients_of
from fedflat.experiments.requests import RequestBatch, SlotExchange
from fedflat.experiments.state import Ledger
from fedflat.experiments.timing import plan_exchange
from fedflat.server.piece import Send, first_broadcast
from fedflat.simulation.timetable import Completion, VisitKey
from fedflat.topologies.population import Chain

T = TypeVar("T")


@dataclass(eq=False)
class InFlightBroadcast:
    """A mail on its way along the chains of a line."""

    line: SlotExchange
    broadcast: Broadcast
    router: ChainRouter
    lost: Mapping[VisitKey, Completion]
    """Visits that will not be made, by the clock."""
    now: dict[int, RequestBatch] = field(default_factory=dict)
    """The letter that each chain is at."""


@dataclass
class Exchange:
    """The clients of a round as the server sees them: `along` gives each of its slots a gradient
    oracle."""

    pool: ClientPool
    collector: ReplyCollector
    """What becomes of each visit."""
    sent: dict[int, Broadcast] = field(default_factory=dict)
    """What was sent in earlier rounds and somebody is still at work on."""
    strict: bool = True
    """Whether deadlines and absences count; if not, the server waits for everybody who is asked."""

    def __post_init__(self) -> None:
        self.prepared, self.clients = self.collector.prepared, self.collector.clients
        self._start, self._met = self.ledger.clock or 0.0, False

    @property
    def ledger(self) -> Ledger:
        """What the run has cost so far."""
        return self.collector.ledger

    def sender(self, slot: str, chains: Sequence[Chain]) -> Send:
        """What a slot sends its mail by, along these chains."""
        return partial(self._send, SlotExchange(slot, chains))

    def run_slots(
        self, asked: Mapping[str, Sequence[Chain]], step: Callable[[str, Send], T]
    ) -> dict[str, T]:
        """What each slot makes of what it sends its mail by; of several, those to whom too few
        reply make nothing.

        Where chains need not wait for each other, neither need slots that ask once each: a step is
        broken off where it asks, and made again with the answer.
        """
        once = all(piece.oracle_calls == 1 for piece in self.prepared.exp.method.server)
        if (
            len(asked) == 1
            or not once
            or not self.prepared.exp.topology.has_chains
            or not self._can_follow
        ):
            return _enough(
                (slot, partial(step, slot, self.sender(slot, chains)))
                for slot, chains in asked.items()
            )
        broadcasts = {slot: first_broadcast(partial(step, slot)) for slot in asked}
        brought = self._send_at_once(
            [(SlotExchange(slot, asked[slot]), broadcasts[slot]) for slot in asked]
        )
        return _enough(
            (slot, partial(step, slot, came)) for slot, came in zip(asked, brought, strict=True)
        )

    def _send(self, line: SlotExchange, broadcast: Broadcast) -> Replies:
        """One call, one exchange."""
        trip = self._begin(line, broadcast)
        return self._folded(
            trip,
            self._by_themselves([trip]) if self._follows(trip.router) else self._in_waves(trip),
        )

    def _send_at_once(self, broadcasts: Sequence[tuple[SlotExchange, Broadcast]]) -> Iterator[Send]:
        """An exchange for each line, each as it has been made; workers go from one to the other."""
        trips = [self._begin(*one) for one in broadcasts]
        ended = self._by_themselves(trips)
        for trip in trips:
            yield self._brought(trip, islice(ended, len(trip.router.chains)))
        assert next(ended, None) is None

    def _brought(
        self, trip: InFlightBroadcast, ended: Iterable[tuple[RequestBatch, PoolOutcome] | None]
    ) -> Send:
        """An exchange that has been made, for whoever asks for it."""
        try:
            replies = self._folded(trip, ended)
        except TooFewReplies as few:
            return partial(_raise, few)
        return lambda broadcast: replies

    def _begin(self, line: SlotExchange, broadcast: Broadcast) -> InFlightBroadcast:
        """A mail on its way."""
        self.clients.use_pool(self.pool, broadcast.round)
        broadcast = line.last = broadcast.after(line.last)
        line.count += 1
        lost = self._timed(line, broadcast)
        chains = line.chains_for(broadcast)
        addressed = self.prepared.addressed(broadcast, [chain[0] for chain in chains])
        return InFlightBroadcast(
            line, broadcast, ChainRouter(addressed, chains, self._answered(broadcast)), lost
        )

    def _folded(
        self, trip: InFlightBroadcast, ended: Iterable[tuple[RequestBatch, PoolOutcome] | None]
    ) -> Replies:
        """What the server makes of the last visits of all chains."""
        exp = self.prepared.exp
        weighting = exp.weighting or exp.method.weighting or "sized"
        rule = (
            partial(exp.method.aggregator.combine_round, trip.broadcast.round)
            if exp.method.aggregator
            else None
        )
        population = len(self.prepared.slots[trip.line.slot])
        replies = aggregate(
            trip.broadcast,
            self._taken(trip, ended),
            population=population,
            weighting=weighting,
            aggregator=rule,
        )
        self.collector.callback.on_aggregate(replies)
        return replies

    def _taken(
        self, trip: InFlightBroadcast, ended: Iterable[tuple[RequestBatch, PoolOutcome] | None]
    ) -> Iterator[Reply | ReplyBatch]:
        """The replies of whole chains; nothing comes of a chain that broke off."""
        line, broadcast, router, came = trip.line, trip.broadcast, trip.router, 0
        counts = broadcast.commit and broadcast.instruction.commits
        for requests, outcome in filter(None, ended):
            found = self.collector.accept(line, router, requests, outcome, last=True)
            if found is None:
                continue
            reply, state = found
            if isinstance(reply, Reply):
                reply = router.chain_reply(reply)
            answered = router.sent.get(clients_of(reply)[0], broadcast)
            if counts:
                self.collector.stage(reply, state | self.collector.notify(answered, reply))
            came += len(reply) if isinstance(reply, ReplyBatch) else 1
            yield (
                self.prepared.exp.topology.weigh_reply(broadcast, answered, reply)
                if router.sent
                else reply
            )
        self.collector.attendance.check_count(broadcast.round, came)

    @property
    def _can_follow(self) -> bool:
        """Whether chains need not wait for each other; somebody who overhears visits hears them in
        their order."""
        listens = (
            self.prepared.exp.attack is not None and self.prepared.exp.attack.observes_broadcasts
        )
        return isinstance(self.pool, ChainPool) and not listens

    def _follows(self, router: ChainRouter) -> bool:
        return router.longest > 1 and self._can_follow

    def _in_waves(self, trip: InFlightBroadcast) -> Iterator[tuple[RequestBatch, PoolOutcome]]:
        """The last visits of chains, all of which go on together."""
        line, broadcast, router, lost = trip.line, trip.broadcast, trip.router, trip.lost
        for wave in router:
            cohort = [
                client
                for client, sent in wave.broadcasts.items()
                if (client, sent.repetition) not in lost
            ]
            requests = line.requests(self.clients, wave.broadcasts, cohort)
            each = not wave.last or (
                broadcast.commit
                and broadcast.instruction.commits
                and self.collector.needs_single_replies
            )
            visits = match_replies(self.pool.run(requests), requests.ids, broadcast, each=each)
            for outcome in chain(requests.lost(lost), visits):
                if wave.last:
                    yield requests, outcome
                else:
                    self._hand_on(line, router, requests, outcome)

    def _by_themselves(
        self, trips: Sequence[InFlightBroadcast]
    ) -> Iterator[tuple[RequestBatch, PoolOutcome] | None]:
        """The last visits of all chains of some trips, in their order, None where one broke off;
        each chain goes on as soon as its own visit has ended."""
        assert isinstance(self.pool, ChainPool)
        before = len(self.collector.attendance.failures)
        ways = [(trip, place) for trip in trips for place in range(len(trip.router.chains))]
        begun = [way for way in ways if self._onward(*way)]

        def then(at: int, outcome: PoolOutcome) -> Request | None:
            trip, place = begun[at]
            if len(trip.router.remaining(place)) == 1:
                if isinstance(
                    outcome, ClientFailure
                ):  # fail now, and not when the chains before it have ended
                    self.collector.attendance.check(trip.broadcast.round, outcome)
                return None
            [one] = match_replies([outcome], trip.now[place].ids, trip.broadcast, each=True)
            self._hand_on(trip.line, trip.router, trip.now[place], one)
            return (
                trip.now[place][0]
                if place not in trip.router.broken and self._onward(trip, place)
                else None
            )

        def left(at: int, made: int) -> float:
            trip, place = begun[at]
            return self.prepared.samples(trip.broadcast.round, trip.router.chains[place][made:])

        going = set(begun)
        visits = self.pool.run_chains([trip.now[place][0] for trip, place in begun], then, left)
        for trip, place in ways:
            outcome = next(visits) if (trip, place) in going else None
            if outcome is None or place in trip.router.broken:
                yield None
            else:
                [one] = match_replies([outcome], trip.now[place].ids, trip.broadcast, each=True)
                yield trip.now[place], one
        assert next(visits, None) is None
        order = [client for trip, place in ways for client in trip.router.chains[place]]
        missed = self.collector.attendance.failures[before:]
        self.collector.attendance.failures[before:] = sorted(
            missed, key=lambda one: order.index(one.client)
        )

    def _onward(self, trip: InFlightBroadcast, place: int) -> bool:
        """Write the next letter along a chain, if its client will answer."""
        client, sent = trip.router.next(place)
        trip.now[place] = trip.line.requests(self.clients, {client: sent}, [client])
        for missing in trip.now[place].lost(trip.lost):
            self._hand_on(trip.line, trip.router, trip.now[place], missing)
        return place not in trip.router.broken

    def _hand_on(
        self, line: SlotExchange, router: ChainRouter, requests: RequestBatch, outcome: PoolOutcome
    ) -> None:
        """A visit in the middle of a chain has ended."""
        found = self.collector.accept(line, router, requests, outcome, last=False)
        if found is None:
            return
        reply, state = found
        assert isinstance(reply, Reply)
        broadcast = requests.broadcast_to(reply.client)
        if broadcast.commit and broadcast.instruction.commits:
            self.collector.stage(reply, state)
        router.forward(reply)

    def _timed(self, line: SlotExchange, broadcast: Broadcast) -> Mapping[VisitKey, Completion]:
        """Let simulated time pass by an exchange; who will not answer. Who is asked and not needed
        leaves the line."""
        if self.prepared.fleet is None:
            return {}
        sent = partial(self._bytes_to, line)
        fleet = self.prepared.fleet if self.strict else self.prepared.fleet.patient
        choose = broadcast.instruction.trains and not line.chosen
        ends = (
            self.prepared.exp.topology.end_times(self.prepared.clients, broadcast.round)
            if broadcast.instruction.trains
            else None
        )
        if ends is not None:
            self.collector.ledger = self.ledger.until(
                (self.prepared.initial_cost.clock or 0.0) + ends
            )
            return {}
        if line.count == 1:
            line.clock = self._begins(line.slot, broadcast.round)
        busy = {int(client): until for client, until in self.ledger.busy.items()}
        plan = plan_exchange(
            self.prepared,
            fleet,
            line.clock,
            broadcast,
            line.chains_for(broadcast),
            sent,
            choose=choose,
            busy=busy,
        )
        line.clock, line.chosen = plan.over, line.chosen or choose
        self.collector.ledger = self.ledger.until(
            plan.over, line.slot if len(self.prepared.slots) > 1 else None
        )
        if self.prepared.shares:
            free = {client: at for one in plan.ended for client, at in one.free.items()}
            self.collector.ledger = self.ledger.at_work({**busy, **free})
        for place in plan.surplus:
            self.collector.ledger = self.ledger.plus(
                down=sent(line.chains[place][0], broadcast), models_s2c=broadcast.models
            )
        line.chains = [
            chain for place, chain in enumerate(line.chains) if place not in plan.surplus
        ]
        return plan.lost

    def _begins(self, slot: str, t: int) -> float:
        """When a slot's first exchange of round ``t`` begins: slots that have not met have clocks
        of their own."""
        if len(self.prepared.slots) == 1:
            return self._start
        if not self._met and (
            t == 0 or self.prepared.exp.topology.merges_after(self.prepared.clients, t - 1)
        ):
            clocks = dict.fromkeys(self.prepared.slots, self._start)
            self.collector.ledger, self._met = replace(self.ledger, clocks=clocks), True
        return self.ledger.clocks.get(slot, self._start)

    def _bytes_to(self, line: SlotExchange, client: int, broadcast: Broadcast) -> int:
        """Bytes of a mail to a client: of the part that stays with clients, only its first values,
        at a first visit."""
        own = (
            self.prepared.private_size * broadcast.params.element_size()
            if broadcast.instruction.trains and client in self.clients
            else 0
        )
        return (broadcast.after(None) if client in line.missing_model else broadcast).nbytes - own

    def _answered(self, broadcast: Broadcast) -> dict[int, Broadcast]:
        """What those who reply in a round were sent, where that was in earlier ones too; counted
        when it is sent."""
        underway = (
            self.prepared.exp.topology.in_flight(self.prepared.clients, broadcast.round)
            if broadcast.instruction.trains
            else None
        )
        if underway is None:
            return {}
        n = len(underway.started)
        self.collector.ledger = self.ledger.plus(
            down=n * broadcast.nbytes, models_s2c=n * broadcast.models
        )
        rate = self.prepared.exp.lr
        sent = {
            t: replace(old, lr=rate(t), instruction=broadcast.instruction)
            for t, old in self.sent.items()
        } | {broadcast.round: broadcast}
        self.sent = {t: one for t, one in sent.items() if t in underway.left}
        return {client: sent[t] for client, t in underway.since.items()}


def _raise(error: Exception, broadcast: Broadcast) -> NoReturn:
    raise error


def _enough(steps: Iterable[tuple[str, Callable[[], T]]]) -> dict[str, T]:
    """What comes of the steps of some slots, without those to whom too few replied; not even one is
    an error."""
    made, short = dict[str, T](), list[TooFewReplies]()
    for slot, step in steps:
        try:
            made[slot] = step()
        except TooFewReplies as few:
            short.append(few)
    if not made:
        raise short[-1]
    return made
