"""One exchange of a star: send a broadcast to a slot's cohort, aggregate the replies.

`Exchanges` opens the `Exchange` of each round. A request is a broadcast, the state that the client
keeps, and an id that is unique in the run.
Chains of clients (`topologies/chain_exchange.py`) and asynchronous servers
(`topologies/async_exchange.py`) replace `Exchange`. Simulated time (`simulation/timing.py`) is a
`Plan`. Attacks that observe replace the `ReplyCollector` (`simulation/attacks/observation.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, takewhile
from typing import Protocol, TypeVar, overload

from fedflat.client.piece import ClientState
from fedflat.client.request_columns import RequestColumns
from fedflat.client.training import ClientJob, Request
from fedflat.core.failures import ClientFailure
from fedflat.core.messages import Broadcast, Replies, Reply, ReplyBatch
from fedflat.execution.client_pool import Pool
from fedflat.execution.client_states import AVERAGE, ClientStates
from fedflat.server.aggregators import Aggregator
from fedflat.server.averaging import AverageState, ModelAverage, RunInfo
from fedflat.server.client_evaluation import ClientEvaluation
from fedflat.server.client_registry import ClientRegistry
from fedflat.server.client_selection import Chain
from fedflat.server.ledger import Ledger
from fedflat.server.piece import Send
from fedflat.server.replies import (
    Listener,
    ReplyCollector,
    ReplySettings,
    TooFewReplies,
    match_replies,
    reply_listeners,
)
from fedflat.server.step import aggregate

T = TypeVar("T")
RequestKey = tuple[int, int]
"""A client, and how often it was asked before in the same exchange."""
NoReply = tuple[str, str]
"""The reason (see `ClientFailure`) and details."""
Unanswered = Mapping[RequestKey, NoReply]
"""Requests that are known beforehand to have no answer."""


@dataclass(frozen=True)
class RequestBatch(Sequence[Request]):
    """One request to each client of a cohort; the client's state is read when it is accessed."""

    broadcasts: Mapping[int, Broadcast]
    """By client. Clients outside the cohort are not asked."""
    cohort: Sequence[int]
    clients: ClientStates
    exchange: int = 1
    """Number of the exchange within the round."""
    missing_model: Set[int] = frozenset()
    """Clients that must be sent a model that the others still have."""
    download_counted: bool = False
    """True if the ledger has the download already (replies to earlier broadcasts)."""

    def __len__(self) -> int:
        return len(self.cohort)

    def __iter__(self) -> Iterator[Request]:
        return map(self._request, self.cohort, self._ids)

    @overload
    def __getitem__(self, place: int) -> Request: ...

    @overload
    def __getitem__(self, place: slice) -> RequestBatch: ...

    def __getitem__(self, place: int | slice) -> Request | RequestBatch:
        if isinstance(place, slice):
            cohort = self.cohort[place]
            return self if len(cohort) == len(self) else replace(self, cohort=cohort)
        return self.to(self.cohort[place])

    def to(self, client: int) -> Request:
        """The request to one client, with the state of its own pieces."""
        return self._request(client, self.id(client))

    def _request(self, client: int, id: str) -> Request:
        return Request(client, self.broadcast_to(client), self._state(client), id)

    def _state(self, client: int) -> ClientState:
        if not self.clients.in_use:
            return {}
        own = self.clients.state(client)
        return {k: kept for k, kept in own.items() if not k.startswith(AVERAGE)}

    def columns(self) -> RequestColumns:
        """The first of these requests by columns, up to the first that has another broadcast.

        The states of their clients are read.
        """
        broadcast, cohort = self.broadcast_to(self.cohort[0]), self.cohort
        if self._broadcast is None or self.missing_model:
            cohort = list(takewhile(lambda one: self.broadcast_to(one) is broadcast, cohort))
        states = list(map(self._state, cohort)) if self.clients.in_use else []
        ids = self._ids[: len(cohort)]
        return RequestColumns(broadcast, cohort, ids, states if any(states) else None)

    @cached_property
    def _broadcast(self) -> Broadcast | None:
        """The broadcast of all clients, None if there are several."""
        found = list(self.broadcasts.values())
        return found[0] if len(set(map(id, found))) == 1 else None

    def broadcast_to(self, client: int) -> Broadcast:
        """The broadcast to one client, with the model if this client lacks it."""
        broadcast = self.broadcasts[client]
        return broadcast.after(None) if client in self.missing_model else broadcast

    def id(self, client: int) -> str:
        """An id that no other request of the run has."""
        before, after = self._id_parts(self.broadcasts[client])
        return f"{before}{client}{after}"

    def _id_parts(self, broadcast: Broadcast) -> tuple[str, str]:
        """What precedes and follows the client in an id."""
        again = f"/{broadcast.repetition}" if broadcast.repetition else ""
        return f"{broadcast.round}/{self.exchange}/", again

    @cached_property
    def _ids(self) -> list[str]:
        if self._broadcast is None:
            return list(map(self.id, self.cohort))
        before, after = self._id_parts(self._broadcast)
        return [f"{before}{client}{after}" for client in self.cohort]

    def failures(self, unanswered: Unanswered) -> Iterator[ClientFailure]:
        """Failures of the clients that are known not to answer."""
        for client, broadcast in self.broadcasts.items() if unanswered else ():
            found = unanswered.get((client, broadcast.repetition))
            if found is not None:
                yield ClientFailure(client, self.id(client), *found)

    @property
    def ids(self) -> dict[str, int]:
        """The client of each request, by id."""
        return dict(zip(self._ids, self.cohort, strict=True))


@dataclass
class SlotExchange:
    """What one slot of the server has sent in a round, and to whom."""

    slot: str
    chains: Sequence[Chain]
    """Chains of clients that train; one client each in a star."""
    last: Broadcast | None = None
    """The last broadcast."""
    count: int = 0
    """Exchanges so far."""
    missing_model: set[int] = field(default_factory=set)
    """Clients that did not answer and may lack the last broadcast."""

    @property
    def cohort(self) -> list[int]:
        """All clients, each once."""
        return list(dict.fromkeys(chain.from_iterable(self.chains)))

    def chains_for(self, broadcast: Broadcast) -> Sequence[Chain]:
        """The chains for training; for other instructions each client is asked on its own."""
        if broadcast.instruction.trains:
            return self.chains
        return [(client,) for client in self.cohort]

    def requests(
        self, clients: ClientStates, broadcasts: Mapping[int, Broadcast], cohort: Sequence[int]
    ) -> RequestBatch:
        """Requests of the current exchange to a cohort."""
        return RequestBatch(broadcasts, cohort, clients, self.count, frozenset(self.missing_model))


Plan = Callable[[SlotExchange, Broadcast], Unanswered]
"""Called before a broadcast is sent. Returns the requests that will have no answer."""
Address = Callable[[Broadcast, Sequence[int]], Broadcast]
"""Returns the broadcast as it is sent to a cohort."""


@dataclass(frozen=True)
class ExchangeSettings:
    """What all exchanges of a run have in common."""

    slot_sizes: Mapping[str, int]
    """Number of clients of each slot."""
    weighting: str = "sized"
    """Of replies: "sized" or "uniform"."""
    aggregator: Aggregator | None = None
    """Replaces the mean of the replies."""
    address: Address | None = None
    """None: no client needs to know the others of the cohort."""

    def addressed(self, broadcast: Broadcast, cohort: Sequence[int]) -> Broadcast:
        """The broadcast as it is sent to a cohort."""
        return self.address(broadcast, cohort) if self.address else broadcast


@dataclass
class Exchange:
    """Sends the broadcasts of a round to clients and aggregates their replies in cohort order."""

    settings: ExchangeSettings
    pool: Pool
    collector: ReplyCollector
    plan: Plan | None = None
    """None: every client answers."""
    in_flight: dict[int, Broadcast] = field(default_factory=dict)
    """Broadcasts that clients still work on, by round; only with an asynchronous server."""
    on_aggregate: Sequence[Callable[[Replies], None]] = ()
    """Called with the aggregated replies of each exchange."""

    def __post_init__(self) -> None:
        self.clients = self.collector.clients

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
        broadcast = slot_exchange.last = broadcast.after(slot_exchange.last)
        slot_exchange.count += 1
        return broadcast, self.plan(slot_exchange, broadcast) if self.plan else {}

    def requests(
        self, slot_exchange: SlotExchange, broadcast: Broadcast, unanswered: Unanswered
    ) -> RequestBatch:
        """Requests to all clients of a slot."""
        broadcasts = self.broadcasts(broadcast, slot_exchange.cohort)
        asked = list(broadcasts)
        if unanswered:
            asked = [one for one in asked if (one, broadcasts[one].repetition) not in unanswered]
        return slot_exchange.requests(self.clients, broadcasts, asked)

    def broadcasts(self, broadcast: Broadcast, cohort: Sequence[int]) -> dict[int, Broadcast]:
        """The broadcast that each client answers."""
        return dict.fromkeys(cohort, self.settings.addressed(broadcast, cohort))

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
            usable = self.collector.accept(slot_exchange.missing_model, requests, outcome)
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
        settings = self.settings
        combine = settings.aggregator and settings.aggregator.combine_round
        found = aggregate(
            broadcast,
            self.collector.require_enough(broadcast.round, replies),
            population=settings.slot_sizes[slot_exchange.slot],
            weighting=settings.weighting,
            aggregator=partial(combine, broadcast.round) if combine else None,
        )
        for notify in self.on_aggregate:
            notify(found)
        return found


class RoundListener(Protocol):
    """Sees the replies of a round and changes nothing."""

    def on_reply(self, broadcast: Broadcast, reply: Reply | ReplyBatch) -> None:
        """A usable reply to ``broadcast`` has come."""
        ...

    def on_aggregate(self, replies: Replies) -> None:
        """All replies of an exchange are aggregated."""
        ...


Averages = dict[str, AverageState]
OpenCollector = Callable[..., ReplyCollector]
OpenPlan = Callable[..., Plan]


@dataclass(frozen=True)
class Exchanges:
    """Opens the exchange of each round of a run."""

    kind: Callable[..., Exchange]
    """`Exchange`, or what the topology needs in place of it."""
    settings: ExchangeSettings
    replies: ReplySettings
    pool: Pool
    info: RunInfo
    observers: Sequence[ModelAverage | ClientEvaluation] = ()
    """Averages and evaluations that need every reply."""
    collector: Callable[[Averages], OpenCollector] | None = None
    """Replaces `ReplyCollector`, where an attack observes."""
    plan: OpenPlan | None = None
    """Opens the plan of a run with simulated time."""

    def open(
        self,
        t: int,
        clients: ClientStates,
        averages: Averages,
        ledger: Ledger,
        callbacks: Sequence[RoundListener] = (),
        in_flight: dict[int, Broadcast] | None = None,
        *,
        patient: bool = False,
    ) -> Exchange:
        """The exchange of round ``t``, which stages ``clients`` and adds to ``averages``.

        Args:
            ledger: the cost of the run before the round.
            in_flight: broadcasts of earlier rounds that clients still work on.
            patient: wait for all clients, whatever the deadline of the run's clock.
        """
        updates = reply_listeners(self.observers, averages, clients, self.info)
        listeners: list[Listener] = [partial(_notify, one) for one in callbacks]
        listeners += updates
        open_collector = self.collector(averages) if self.collector else ReplyCollector
        collector = open_collector(
            self.replies, t, clients, ledger, listeners, single_replies=bool(updates)
        )
        return self.kind(
            self.settings,
            self.pool,
            collector,
            self.plan(collector, patient=patient) if self.plan else None,
            in_flight or {},
            [one.on_aggregate for one in callbacks],
        )


def _notify(
    callback: RoundListener, broadcast: Broadcast, reply: Reply | ReplyBatch
) -> ClientState:
    callback.on_reply(broadcast, reply)
    return {}


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


def address_of(job: ClientJob, registry: ClientRegistry) -> Address | None:
    """How the broadcasts of a run are addressed: with `with_preceding` if a piece needs that."""
    needed = any(piece.needs_cohort_order for piece in job.pieces)
    return partial(with_preceding, job, registry) if needed else None


def with_preceding(
    job: ClientJob, registry: ClientRegistry, broadcast: Broadcast, cohort: Sequence[int]
) -> Broadcast:
    """The broadcast, with what precedes each client in the cohort."""
    preceding: dict[int, tuple[int, float]] = {}
    batches = 0.0
    for place, client in enumerate(cohort):
        preceding[client] = place, batches
        examples = registry.size(client)
        steps = job.local.planned_steps(broadcast.round, client, examples)
        batches += job.local.samples(broadcast.round, client, examples) / steps
    return replace(broadcast, preceding=preceding)
