"""Clients in this process behind the wire format: all of a network but the network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fedflat.client.training import Request
from fedflat.core.failures import ClientFailure
from fedflat.core.messages import Broadcast
from fedflat.execution.client_pool import PoolOutcome
from fedflat.execution.client_runtime import ClientRuntime
from fedflat.execution.state_ids import StateIds
from fedflat.execution.wire_envelope import message_id
from fedflat.execution.wire_format import ClientReply, RequestMessage, decode, encode


class LoopbackPool:
    """Encodes each request, lets a `ClientRuntime` answer it, and decodes the answer."""

    def __init__(self, runtime: ClientRuntime) -> None:
        self.runtime = runtime
        self.bytes_sent = 0
        """Bytes of all messages; a broadcast counts once for all requests in a row."""
        self._last: tuple[Broadcast, bytes] | None = None

    def run(self, requests: Sequence[Request]) -> Iterator[PoolOutcome]:
        """Yield the outcomes of all requests, one after the other."""
        return map(self._answer, requests)

    def _answer(self, request: Request) -> PoolOutcome:
        request = self._with_state_id(request)
        broadcast = self._encoded(request.broadcast)
        message = encode(RequestMessage.of(request, message_id(broadcast)))
        answer = self.runtime.handle(broadcast, message)
        self.bytes_sent += len(message) + len(answer)
        outcome = decode(answer, device=self.runtime.job.learner.device)
        if isinstance(outcome, ClientFailure):
            return outcome
        assert isinstance(outcome, ClientReply)
        self._report(request, outcome)
        return outcome.reply, outcome.state

    def _with_state_id(self, request: Request) -> Request:
        return request

    def _report(self, request: Request, outcome: ClientReply) -> None:
        """Learn whether the client has made a state."""

    def _encoded(self, broadcast: Broadcast) -> bytes:
        """The bytes of a broadcast, without a model that the clients got with the last one."""
        if self._last is None or self._last[0] is not broadcast:
            model_of = None
            if self._last is not None and broadcast.after(self._last[0]).repeat:
                model_of = message_id(self._last[1])
            content = encode(broadcast, model_of=model_of)
            self.bytes_sent += len(content)
            self._last = broadcast, content
        return self._last[1]


class StatefulLoopbackPool(LoopbackPool):
    """The same with clients that keep their states: the runtime must have stores."""

    ids: StateIds | None = None

    def use_states(self, ids: StateIds) -> None:
        """Name the states of clients by these ids."""
        self.ids = ids

    def _with_state_id(self, request: Request) -> Request:
        if self.ids is None:
            return request
        current, keep = self.ids.current(request.client), self.ids.keep(request.client)
        state = request.state if current is None else {}  # of a run that was begun without stores
        return replace(request, state=state, state_id=current, keep=keep)

    def _report(self, request: Request, outcome: ClientReply) -> None:
        if self.ids is not None and outcome.kept:
            self.ids.made(request.id)
