"""Replies of a round: count traffic, record failures, stage client state, notify listeners.

`ReplyCollector` is the only owner of the ledger and of the failures of a round. `match_replies`
pairs whatever a pool returns with the requests that were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from fedflat.client.piece import ClientState
from fedflat.client.training import Request
from fedflat.core.failures import LATE, NOT_FINITE, REFUSED, ClientFailure
from fedflat.core.messages import Broadcast, Reply, ReplyBatch, unstack
from fedflat.errors import FedflatError, NotFinite
from fedflat.execution.client_pool import PoolOutcome
from fedflat.execution.client_states import AVERAGE, ClientStates
from fedflat.execution.scheduler import Answered
from fedflat.server.averaging import AverageState, ModelAverage, RunInfo
from fedflat.server.client_evaluation import ClientEvaluation
from fedflat.server.ledger import Ledger

NAMED = 5
"""The most failures that a message names."""


class Diverged(Exception):
    """A reply is not finite, and the run records that as its end (``on_bad="stop"``)."""


class TooFewReplies(FedflatError):
    """Fewer replies came than `min_replies`."""


class SentRequests(Protocol):
    """The requests of an exchange, as far as replies need them (`RequestBatch`)."""

    @property
    def download_counted(self) -> bool:
        """True if the ledger has the download already."""
        ...

    def to(self, client: int) -> Request:
        """The request to one client."""
        ...

    def broadcast_to(self, client: int) -> Broadcast:
        """The broadcast to one client."""
        ...


Listener = Callable[[Broadcast, Reply | ReplyBatch], ClientState]
"""Called with each usable reply that commits; returns what is kept with the client's state."""


def _unknown_origin(request: Request) -> str:
    return "where it began is not known"


@dataclass(frozen=True)
class ReplySettings:
    """How a run handles replies."""

    min_replies: int | None = None
    """The least usable replies of a slot; None: every client must reply."""
    on_bad: str = "raise"
    """What a reply that is not finite does: "raise", "stop" or "skip"."""
    private_size: int = 0
    """Number of parameters that stay with the clients."""
    counts_traffic: bool = True
    """False if there is no network: centralised training."""
    diagnose: Callable[[Request], str] = _unknown_origin
    """Says where the first value that is not finite came from in a request."""


@dataclass
class ReplyCollector:
    """Handles the replies of one round."""

    settings: ReplySettings
    round: int
    clients: ClientStates
    ledger: Ledger
    """The cost of the run so far. Only this class replaces it."""
    listeners: Sequence[Listener] = ()
    single_replies: bool = False
    """True if listeners need replies one by one, not in batches."""
    failures: list[ClientFailure] = field(default_factory=list)
    """Requests of the round without a usable reply."""
    seconds_observing: float = 0.0
    """Seconds in which an attack observed broadcasts; not counted as training."""

    observes_requests = False
    """True if replies must be accepted in the order of their requests."""

    def needs_single_replies(self, broadcast: Broadcast) -> bool:
        """Whether replies to a broadcast are needed one by one, not in batches."""
        return self.single_replies and commits(broadcast)

    def accept(
        self,
        missing_model: set[int],
        requests: SentRequests,
        outcome: PoolOutcome,
        *,
        from_client: bool = False,
        to_client: bool = False,
    ) -> Answered | None:
        """Count a reply and return it; a failure is recorded, and None returned.

        ``missing_model`` has the clients that may lack the last broadcast, and is updated.
        ``from_client`` and ``to_client`` say that the model came from, or goes to, another client
        of a chain. Raises an error if the run does not allow the failure.
        """
        if isinstance(outcome, ClientFailure):
            if outcome.reason == NOT_FINITE:
                self._check_not_finite(requests, outcome.client)
            else:
                self.ledger = self.ledger.plus(
                    **self._download(requests, [outcome.client], from_client)
                )
                missing_model.add(outcome.client)
                self.check_failure(outcome)
            self._record(outcome)
            return None
        reply = outcome[0]
        clients = clients_of(reply)
        self.ledger = self.ledger.plus(
            **self._download(requests, clients, from_client),
            **self._training(requests, clients, reply, to_client),
        )
        if missing_model:
            missing_model.difference_update(clients)
        if reply.finite:
            return outcome
        assert isinstance(reply, Reply)
        self._check_not_finite(requests, reply.client)
        self._record(ClientFailure(reply.client, reply.request, NOT_FINITE))
        return None

    def take(self, broadcast: Broadcast, reply: Reply | ReplyBatch, state: ClientState) -> None:
        """Notify listeners of a usable reply to the server, and stage the client state."""
        if commits(broadcast):
            for listener in self.listeners:
                state = state | listener(broadcast, reply)
            self.stage(reply, state)

    def stage(self, reply: Reply | ReplyBatch, state: ClientState) -> None:
        """Keep client state for the commit at the end of the round."""
        if not state and not self.clients.in_use:
            return
        if isinstance(reply, Reply):
            self.clients.accept([reply.request], [reply.client])
            self.clients.stage(reply.client, state)
            return
        self.clients.accept(reply.requests, reply.clients)
        if state:
            for client, own in zip(reply.clients, unstack(state, len(reply)), strict=True):
                self.clients.stage(client, own)

    def require_enough(
        self, t: int, replies: Iterable[Reply | ReplyBatch]
    ) -> Iterator[Reply | ReplyBatch]:
        """Pass replies on; raise `TooFewReplies` at the end if they are fewer than allowed."""
        least = self.settings.min_replies
        if least is None:
            yield from replies
            return
        count = 0
        for reply in replies:
            count += len(clients_of(reply))
            yield reply
        if count < least:
            who = "; ".join(map(str, self.failures[-NAMED:])) + (
                "; ..." if len(self.failures) > NAMED else ""
            )
            raise TooFewReplies(
                f"round {t + 1}: {count} replies came that could be used, and min_replies asks for "
                f"{least} at least: {who}. See what went wrong there, ask more clients a round, or "
                "ask for fewer replies."
            )

    def check_failure(self, failure: ClientFailure) -> None:
        """Raise the error of a failed request, unless the run allows missing clients."""
        if self.settings.min_replies is None:
            raise failure.error or FedflatError(
                f"round {self.round + 1}: {failure}. To go on without such clients, set "
                "min_replies."
            )

    def _check_not_finite(self, requests: SentRequests, client: int) -> None:
        on_bad = self.settings.on_bad
        if on_bad == "stop":
            raise Diverged
        if on_bad != "skip":
            raise NotFinite(
                f"round {self.round + 1}, client {client}: the reply is NaN or infinite; "
                f"{self.settings.diagnose(requests.to(client))}. Lower the learning rate or clip "
                "gradients; on_bad='skip' leaves such replies out, on_bad='stop' records the run "
                "as diverged."
            )

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
            {"client": one.client, "request": one.request, "reason": one.reason, "why": one.detail}
            for one in self.failures
        ]
        return {"round": self.round + 1, "missing": rows} if rows else {}

    def _download(
        self, requests: SentRequests, clients: Sequence[int], from_client: bool
    ) -> dict[str, int]:
        """What clients are sent; the private part of the model only at a first request."""
        if not self.settings.counts_traffic or requests.download_counted:
            return {}
        broadcast = requests.broadcast_to(clients[0])
        nbytes = len(clients) * broadcast.nbytes
        if self.settings.private_size:
            known = sum(client in self.clients for client in clients)
            nbytes -= known * self._private_bytes(broadcast)
        models = len(clients) * broadcast.models
        if from_client:
            return {"c2c": nbytes, "models_c2c": models}
        return {"down": nbytes, "models_s2c": models}

    def _training(
        self,
        requests: SentRequests,
        clients: Sequence[int],
        reply: Reply | ReplyBatch,
        to_client: bool,
    ) -> dict[str, int]:
        """What clients compute and send."""
        samples = len(clients) * reply.samples
        if not self.settings.counts_traffic or to_client:
            return {"samples": samples}
        nbytes = reply.nbytes
        if self.settings.private_size:
            nbytes -= len(clients) * self._private_bytes(requests.broadcast_to(clients[0]))
        return {"samples": samples, "up": nbytes, "models_c2s": reply.models}

    def _private_bytes(self, broadcast: Broadcast) -> int:
        """Bytes of the part of a model that stays with the client."""
        if not broadcast.instruction.trains:
            return 0
        return self.settings.private_size * broadcast.params.element_size()

    def bytes_to(self, missing_model: set[int], client: int, broadcast: Broadcast) -> int:
        """Bytes that a client will be sent."""
        own = self._private_bytes(broadcast) if client in self.clients else 0
        return (broadcast.after(None) if client in missing_model else broadcast).nbytes - own

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


def reply_listeners(
    observers: Sequence[ModelAverage | ClientEvaluation],
    states: Mapping[str, AverageState],
    clients: ClientStates,
    info: RunInfo,
) -> list[Listener]:
    """The listeners of averages and evaluations that need every reply; they change ``states``."""
    return [
        partial(_update_average, one, states[one.key], clients, info)
        if isinstance(one, ModelAverage)
        else partial(_update_evaluation, one, states[one.key])
        for one in observers
        if one.key in states
    ]


def _update_average(
    average: ModelAverage,
    state: AverageState,
    clients: ClientStates,
    info: RunInfo,
    broadcast: Broadcast,
    reply: Reply | ReplyBatch,
) -> ClientState:
    assert isinstance(reply, Reply)
    key = AVERAGE + average.key
    kept = dict(clients.state(reply.client).get(key, {})) if average.client_vectors else {}
    average.on_reply(state, kept, info, reply)
    return {key: kept} if kept else {}


def _update_evaluation(
    evaluation: ClientEvaluation,
    state: AverageState,
    broadcast: Broadcast,
    reply: Reply | ReplyBatch,
) -> ClientState:
    assert isinstance(reply, Reply)
    evaluation.on_reply(state, reply)
    return {}


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
        for one in _split(outcome, each) if _is_batch(outcome) else (outcome,):
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


def _is_batch(outcome: PoolOutcome) -> bool:
    return not isinstance(outcome, ClientFailure) and isinstance(outcome[0], ReplyBatch)


def _split(outcome: PoolOutcome, each: bool) -> Iterator[PoolOutcome]:
    assert not isinstance(outcome, ClientFailure)
    reply, state = outcome
    assert isinstance(reply, ReplyBatch)
    if each or not reply.finite:
        yield from zip(reply, unstack(state, len(reply)), strict=True)
    else:
        yield outcome


def _expected(outcome: PoolOutcome, waiting: dict[str, int]) -> bool:
    """Whether it answers requests that wait for an answer; these are removed from ``waiting``."""
    answer = outcome if isinstance(outcome, ClientFailure) else outcome[0]
    if not isinstance(answer, ReplyBatch):
        return waiting.pop(answer.request, None) is not None
    if not all(map(waiting.__contains__, answer.requests)):
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
