"""The client's side of the wire: messages in, messages out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fedflat.client.state_store import StateStore
from fedflat.client.training import ClientJob, Request
from fedflat.core.failures import REFUSED, ClientFailure
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast
from fedflat.data.examples import ClientData
from fedflat.execution.in_process import run_or_fail
from fedflat.execution.wire_envelope import message_id
from fedflat.execution.wire_format import (
    ClientReply,
    RequestMessage,
    WireError,
    decode,
    encode,
)


class ClientRuntime:
    """Answers the requests to one client, or to several that share a process.

    Args:
        job: What all requests of the run have in common.
        data: Opens the data of a client.
        stores: Opens the store in which a client keeps its states. None: requests bring the state
            and replies take it back.
    """

    def __init__(
        self,
        job: ClientJob,
        data: Callable[[int], ClientData],
        stores: Callable[[int], StateStore] | None = None,
    ) -> None:
        self.job, self.data, self.stores = job, data, stores
        self._last: tuple[str, Broadcast] | None = None

    def handle(self, broadcast: bytes, request: bytes) -> bytes:
        """Return the answer to a request: a `ClientReply` or a `ClientFailure`.

        Args:
            broadcast: The message that the request names; decoded once for all requests in a row.
            request: A `RequestMessage`.
        """
        message = decode(request, device=self.job.learner.device)
        if not isinstance(message, RequestMessage):
            raise WireError(f"expected a request, found {type(message).__name__}.")
        if message.broadcast != message_id(broadcast):
            raise WireError(
                f"the request {message.id!r} names the broadcast {message.broadcast!r}, but "
                f"{message_id(broadcast)!r} came with it. Send both again."
            )
        return self._answer(message.request(self._decoded(broadcast)))

    def _decoded(self, content: bytes) -> Broadcast:
        id = message_id(content)
        if self._last is None or self._last[0] != id:
            models = (
                {}
                if self._last is None
                else {self._last[0]: Model(self._last[1].params, self._last[1].buffers)}
            )
            broadcast = decode(content, models=models, device=self.job.learner.device)
            if not isinstance(broadcast, Broadcast):
                raise WireError(f"expected a broadcast, found {type(broadcast).__name__}.")
            self._last = id, broadcast
        return self._last[1]

    def _answer(self, request: Request) -> bytes:
        store = None if self.stores is None else self.stores(request.client)
        if store is not None:
            state = request.state if request.state_id is None else store.get(request.state_id)
            if state is None:
                why = f"{store.folder} has no state with the id {request.state_id!r}"
                return encode(ClientFailure(request.client, request.id, REFUSED, why))
            request = replace(request, state=state)
        outcome = run_or_fail(self.job, request, self.data)
        if isinstance(outcome, ClientFailure):
            return encode(outcome)
        reply, state = outcome
        if store is None:
            return encode(ClientReply(reply, state))
        broadcast = request.broadcast
        kept = bool(state) and broadcast.commit and broadcast.instruction.commits
        needed = {*request.keep, *([request.state_id] if request.state_id else [])}
        if kept:
            store.put(request.id, state)
            needed.add(request.id)
        store.keep_only(needed)
        return encode(ClientReply(reply, kept=kept))
