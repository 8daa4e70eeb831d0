"""Replies of a round: count traffic, record failures, stage client state, notify callbacks.

`ReplyCollector` is the only owner of the ledger and of the failures of a round. `match_replies`
pairs whatever a pool returns with the requests that were sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedflat.client.diagnosis import diagnose
from fedflat.client.piece import ClientState
from fedflat.core.failures import LATE, NOT_FINITE, REFUSED, ClientFailure
from fedflat.core.messages import Broadcast, Reply, ReplyBatch, unstack
from fedflat.errors import FedflatError, NotFinite
from fedflat.execution.client_pool import PoolOutcome
from fedflat.execution.client_states import ClientStates
from fedflat.execution.scheduler import Answered
from fedflat.experiments.callbacks import RoundCallback
from fedflat.experiments.requests import SHADOW, RequestBatch, SlotExchange
from fedflat.experiments.state import Ledger
from fedflat.server.averaging import AverageState, ModelAverage

if TYPE_CHECKING:
    from fedflat.experiments.prepare import PreparedRun

NAMED = 5
"""The most failures that a message names."""


class Diverged(Exception):
    """A reply is not finite, and the run records that as its end (``on_bad="stop"``)."""


class TooFewReplies(FedflatError):
    """Fewer replies came than `min_replies`."""


@dataclass
class ReplyCollector:
    """Handles the replies of one round."""

    prepared: PreparedRun
    round: int
    clients: ClientStates
    averages: dict[str, AverageState]
    ledger: Ledger
    """The cost of the run so far. Only this class replaces it."""
    callback: RoundCallback = field(default_factory=RoundCallback)
    failures: list[ClientFailure] = field(default_factory=list)
    """Requests of the round without a usable reply."""

    observes_requests = False
    """True if replies must be accepted in the order of their requests."""

    def __post_init__(self) -> None:
        self._listeners = [
            one for one in self.prepared.exp.method.reply_listeners if one.key in self.averages
        ]

    def needs_single_replies(self, broadcast: Broadcast) -> bool:
        """Whether replies to a broadcast are needed one by one, not in batches."""
        return commits(broadcast) and bool(self._listeners)

    def accept(
        self,
        slot_exchange: SlotExchange,
        requests: RequestBatch,
        outcome: PoolOutcome,
        *,
        from_client: bool = False,
        to_client: bool = False,
    ) -> Answered | None:
        """Count a reply and return it; a failure is recorded, and None returned.

        ``from_client`` and ``to_client`` say that the model came from, or goes to, another client
        of a chain. Raises an error if the run does not allow the failure.
        """
        if isinstance(outcome, ClientFailure):
            if outcome.reason == NOT_FINITE:
                self._check_not_finite(requests, outcome.client)
            else:
                self._count_download(requests, [outcome.client], from_client)
                slot_exchange.missing_model.add(outcome.client)
                self.check_failure(outcome)
            self._record(outcome)
            return None
        reply = outcome[0]
        self._count_download(requests, clients_of(reply), from_client)
        self._count_training(requests, reply, to_client)
        slot_exchange.missing_model.difference_update(clients_of(reply))
        if reply.finite:
            return outcome
        assert isinstance(reply, Reply)
        self._check_not_finite(requests, reply.client)
        self._record(ClientFailure(reply.client, reply.request, NOT_FINITE))
        return None

    def take(self, broadcast: Broadcast, reply: Reply | ReplyBatch, state: ClientState) -> None:
        """Notify listeners of a usable reply to the server, and stage the client state."""
        if commits(broadcast):
            self.stage(reply, state | self._notify(broadcast, reply))

    def stage(self, reply: Reply | ReplyBatch, state: ClientState) -> None:
        """Keep client state for the commit at the end of the round."""
        if isinstance(reply, Reply):
            self.clients.accept([reply.request], [reply.client])
            self.clients.stage(reply.client, state)
            return
        self.clients.accept(reply.requests, reply.clients)
        if state:
            for client, own in zip(reply.clients, unstack(state, len(reply)), strict=True):
                self.clients.stage(client, own)

    def _notify(self, broadcast: Broadcast, reply: Reply | ReplyBatch) -> ClientState:
        """Call all listeners; returns the client state that averages keep."""
        self.callback.on_reply(broadcast, reply)
        kept: ClientState = {}
        for one in self._listeners:
            assert isinstance(reply, Reply)
            if isinstance(one, ModelAverage):
                kept |= self._update_average(one, reply)
            else:
                one.on_reply(self.averages[one.key], reply)
        return kept

    def _update_average(self, average: ModelAverage, reply: Reply) -> ClientState:
        key = SHADOW + average.key
        kept = dict(self.clients.state(reply.client).get(key, {})) if average.client_vectors else {}
        average.on_reply(self.averages[average.key], kept, self.prepared.info, reply)
        return {key: kept} if kept else {}

    def require_enough(
        self, t: int, replies: Iterable[Reply | ReplyBatch]
    ) -> Iterator[Reply | ReplyBatch]:
        """Pass replies on; raise `TooFewReplies` at the end if they are fewer than allowed."""
        count = 0
        for reply in replies:
            count += len(clients_of(reply))
            yield reply
        least = self.prepared.exp.min_replies
        if least is not None and count < least:
            who = "; ".join(map(str, self.failures[-NAMED:])) + (
                "; ..." if len(self.failures) > NAMED else ""
            )
            raise TooFewReplies(
                f"round {t}: {count} replies came that could be used, and min_replies asks for "
                f"{least} at least: {who}. See what went wrong there, ask more clients a round, or "
                "ask for fewer replies."
            )

    def check_failure(self, failure: ClientFailure) -> None:
        """Raise the error of a failed request, unless the run allows missing clients."""
        if self.prepared.exp.min_replies is None:
            raise failure.error or FedflatError(
                f"round {self.round}: {failure}. To go on without such clients, set min_replies."
            )

    def _check_not_finite(self, requests: RequestBatch, client: int) -> None:
        on_bad = self.prepared.exp.on_bad
        if on_bad == "stop":
            raise Diverged
        if on_bad != "skip":
            raise NotFinite(
                f"round {self.round}, client {client}: the reply is NaN or infinite; "
                f"{self._diagnose(requests, client)}. Lower the learning rate or clip gradients; "
                "on_bad='skip' leaves such replies out, on_bad='stop' records the run as diverged."
            )

    def _diagnose(self, requests: RequestBatch, client: int) -> str:
        if not self.prepared.fed.here:
            return "where it began is not known here, where the client's data are not"
        return diagnose(self.prepared.job, requests.to(client), self.prepared.fed.data(client))

    def _record(self, failure: ClientFailure) -> None:
        self.ledger = self.ledger.plus(missing=1)
        self.failures.append(failure)

    def order_failures(self, since: int, clients: Sequence[int]) -> None:
        """Sort the failures from the ``since``-th on by the order of their clients."""
        self.failures[since:] = sorted(
            self.failures[since:], key=lambda one: clients.index(one.client)
        )

    @property
    def failures_row(self) -> dict[str, Any]:
        """The failures of the round as they are written; empty if there are none."""
        rows = [
            {"client": one.client, "letter": one.request, "reason": one.reason, "why": one.detail}
            for one in self.failures
        ]
        return {"round": self.round + 1, "missing": rows} if rows else {}

    def _count_download(
        self, requests: RequestBatch, clients: Sequence[int], from_client: bool
    ) -> None:
        """Count what clients are sent; the private part of the model only at a first request."""
        if self.prepared.exp.method.pooled or requests.download_counted:
            return
        broadcast = requests.broadcast_to(clients[0])
        known = sum(client in self.clients for client in clients)
        nbytes = len(clients) * broadcast.nbytes - known * self._private_bytes(broadcast)
        models = len(clients) * broadcast.models
        if from_client:
            self.ledger = self.ledger.plus(c2c=nbytes, models_c2c=models)
        else:
            self.ledger = self.ledger.plus(down=nbytes, models_s2c=models)

    def _count_training(
        self, requests: RequestBatch, reply: Reply | ReplyBatch, to_client: bool
    ) -> None:
        count = len(clients_of(reply))
        self.ledger = self.ledger.plus(samples=count * reply.samples)
        if self.prepared.exp.method.pooled or to_client:
            return
        own = count * self._private_bytes(requests.broadcast_to(clients_of(reply)[0]))
        self.ledger = self.ledger.plus(up=reply.nbytes - own, models_c2s=reply.models)

    def _private_bytes(self, broadcast: Broadcast) -> int:
        """Bytes of the part of a model that stays with the client."""
        if not broadcast.instruction.trains:
            return 0
        return self.prepared.private_size * broadcast.params.element_size()

    def bytes_to(self, slot_exchange: SlotExchange, client: int, broadcast: Broadcast) -> int:
        """Bytes that a client will be sent."""
        own = self._private_bytes(broadcast) if client in self.clients else 0
        return (
            broadcast.after(None) if client in slot_exchange.missing_model else broadcast
        ).nbytes - own

    def count_sent(self, nbytes: int, models: int) -> None:
        """Count a broadcast for which no reply is counted in this round."""
        self.ledger = self.ledger.plus(down=nbytes, models_s2c=models)

    def advance_clock(self, clock: float, slot: str | None = None) -> None:
        """Let simulated time pass, in seconds since the start; of a slot if there are several."""
        self.ledger = self.ledger.until(clock, slot)

    def set_clocks(self, clocks: Mapping[str, float]) -> None:
        """Set the simulated time of all slots."""
        self.ledger = self.ledger.with_clocks(clocks)

    def set_busy(self, busy: Mapping[int, float]) -> None:
        """Set until which simulated time clients work."""
        self.ledger = self.ledger.at_work(busy)


def clients_of(reply: Reply | ReplyBatch) -> Sequence[int]:
    """The clients of a reply."""
    return reply.clients if isinstance(reply, ReplyBatch) else (reply.client,)


def commits(broadcast: Broadcast) -> bool:
    """Whether clients keep what an exchange changes in their state."""
    return broadcast.commit and broadcast.instruction.commits


def match_replies(
    outcomes: Iterable[PoolOutcome], asked: Mapping[str, int], broadcast: Broadcast, *, each: bool
) -> Iterator[PoolOutcome]:
    """Outcomes of the requests ``asked`` (client by request id); no answer at all is a failure.

    Answers to other requests are dropped. Batches of replies are split if ``each`` is set or if
    some of their replies are not finite.
    """
    waiting = dict(asked)
    for outcome in outcomes:
        for one in _split(outcome, each):
            if not _expected(one, waiting):
                continue
            if isinstance(one, ClientFailure) or _fits(one[0], broadcast):
                yield one
            elif isinstance(one[0], Reply):
                yield ClientFailure(
                    one[0].client, one[0].request, REFUSED, "the reply does not fit the model"
                )
    for request, client in waiting.items():
        yield ClientFailure(client, request, LATE, "no answer came")


def _split(outcome: PoolOutcome, each: bool) -> Iterator[PoolOutcome]:
    if isinstance(outcome, ClientFailure):
        yield outcome
        return
    reply, state = outcome
    if isinstance(reply, ReplyBatch) and (each or not reply.finite):
        yield from zip(reply, unstack(state, len(reply)), strict=True)
    else:
        yield outcome


def _expected(outcome: PoolOutcome, waiting: dict[str, int]) -> bool:
    """Whether it answers requests that wait for an answer; these are removed from ``waiting``."""
    answer = outcome if isinstance(outcome, ClientFailure) else outcome[0]
    if not isinstance(answer, ReplyBatch):
        return waiting.pop(answer.request, None) is not None
    if not all(request in waiting for request in answer.requests):
        return False
    for request in answer.requests:
        del waiting[request]
    return True


def _fits(reply: Reply | ReplyBatch, broadcast: Broadcast) -> bool:
    """Whether a reply has the model's size, where it should have."""
    if not broadcast.instruction.upload_vectors:
        return True
    return (
        reply.delta.shape[-1:] == broadcast.params.shape
        and reply.buffers.shape[-1:] == broadcast.buffers.shape
    )
