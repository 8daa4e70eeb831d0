"""The executor `deployed`: clients on other machines, reached through a session."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from fedflat.client.training import ClientJob, Request
from fedflat.composition.method import Method
from fedflat.core.failures import AWAY, CRASHED, LATE, REFUSED, ClientFailure
from fedflat.core.messages import Broadcast
from fedflat.data.federation import Federation
from fedflat.data.sets.remote_clients import RemoteClients
from fedflat.deploy.envelope import SIGNED, ReplyForm, SignedMessage
from fedflat.deploy.federation_folder import open_federation_folder
from fedflat.deploy.session import MOST_MESSAGE, SESSIONS, SLOWEST, STEP, Session
from fedflat.deploy.transport import LARGEST
from fedflat.errors import LONGEST_WAIT, PrintLine, SettingError, number
from fedflat.execution.client_pool import PoolOutcome, RemoteClientPool, Source
from fedflat.execution.state_ids import StateIds
from fedflat.execution.wire_envelope import message_id
from fedflat.execution.wire_format import ClientReply, RequestMessage, WireError, decode, encode
from fedflat.experiments.experiment import from_json
from fedflat.experiments.job_spec import spec_of_job
from fedflat.methods.dp import PrivateMean
from fedflat.registry.specs import TextSpec, register

LOST = 30.0
"""Seconds for which a client may be gone in the middle of a request; then the request fails."""
BUDGET = 2 * 10**9
"""Bytes of broadcasts on their way at the same time; at least four are."""
LARGER = 8
"""How many times larger than its broadcast a reply may be."""
SMALL = 10**6
"""Bytes that any reply may have."""


@dataclass
class _Pending:
    """A request that was submitted and not answered."""

    request: Request
    name: str
    broadcast: bytes
    message: bytes
    process: str = ""
    """The client's process that it was sent to; empty if it was not sent yet."""
    gone: float | None = None
    """Since when the client has been away."""
    sent: float = 0.0
    """When it was sent."""
    patience: float = 30.0
    """Seconds after which it is sent again to a client that does nothing: it was lost."""


class NetworkPool(RemoteClientPool):
    """Sends requests through a session. Clients keep their states.

    Args:
        session: The server's session.
        form: The form of replies.
        device: The device of the models.
        round_timeout: Seconds after which an exchange ends without those that have not answered.
    """

    ids: StateIds | None = None

    def __init__(
        self,
        session: Session,
        form: ReplyForm,
        device: str = "cpu",
        round_timeout: float | None = None,
    ) -> None:
        self.session, self.form = session, form
        self.device, self.round_timeout = device, round_timeout
        self.pending: dict[str, _Pending] = {}
        self.deadline: float | None = None
        self._last: tuple[Broadcast, bytes] | None = None
        self._failed: list[PoolOutcome] = []

    @property
    def capacity(self) -> int:
        return len(self.session.members)

    def use_states(self, ids: StateIds) -> None:
        """Name the states of clients by these ids."""
        self.ids = ids

    def begin(self) -> None:
        """Give up what an earlier exchange has left; its replies are dropped when they come."""
        for one in self.pending.values():
            self._give_up(one)
        self.pending, self._failed = {}, []
        self.deadline = None
        if self.round_timeout is not None:
            self.deadline = time.monotonic() + self.round_timeout

    def accepts(self, ahead: int) -> bool:
        """All clients work at once, as far as their broadcasts have room on the way."""
        size = len(self._last[1]) if self._last else 1
        return ahead < max(4, BUDGET // size)

    def submit(self, request: Request) -> None:
        """Send a request; to a client that is away as soon as it is back."""
        name = self.session.members[request.client]
        request = self._with_state_id(request)
        broadcast = self._encoded(request.broadcast)
        message = encode(RequestMessage.of(request, message_id(broadcast)))
        self.pending[request.id] = one = _Pending(request, name, broadcast, message)
        self._send(one)

    def collect(self) -> Sequence[PoolOutcome]:
        """Wait for replies, until the deadline."""
        while self.pending and not self._failed:
            self._check_deadline()
            left = STEP if self.deadline is None else self.deadline - time.monotonic()
            self.session.pump(min(STEP, max(left, 0.0)))
            found = [one for one in map(self._read, self._messages()) if one is not None]
            self._failed += found
            for one in list(self.pending.values()):
                self._look_after(one)
        outcomes, self._failed = self._failed, []
        return outcomes

    def _check_deadline(self) -> None:
        if self.deadline is None or time.monotonic() < self.deadline:
            return
        for one in list(self.pending.values()):
            self._fail(one, LATE, f"no answer within {self.round_timeout:g} s")
            self._give_up(one)

    def _give_up(self, one: _Pending) -> None:
        """The client may still work on it: it is not drawn again before it has answered."""
        if one.process:
            self.session.clients[one.name].late.add(one.request.id)

    def _messages(self) -> Iterator[SignedMessage]:
        while self.session.replies:
            yield self.session.replies.popleft()

    def _send(self, one: _Pending) -> None:
        client = self.session.clients[one.name]
        if not self.session.is_online(one.name):
            return
        id = message_id(one.broadcast)
        if client.broadcast != id:
            if not self.session.push(one.name, "broadcast", one.broadcast):
                return
            client.broadcast = id
        if self.session.push(one.name, "request", one.message):
            one.process, one.gone, one.sent = client.process, None, time.monotonic()

    def _look_after(self, one: _Pending) -> None:
        """Send a request again to a client that has come back; fail it if it stays away."""
        client = self.session.clients[one.name]
        online = self.session.is_online(one.name)
        if online and one.process == client.process:
            one.gone = None
            patience = one.patience + 2 * self.session.transfer
            if not client.busy and time.monotonic() - one.sent > patience:
                one.patience *= 2
                client.broadcast = ""
                self.session.log(client=one.name, again=one.request.id)
                self._send(one)
            return
        if online:
            if one.process:
                self.session.log(client=one.name, again=one.request.id)
            self._send(one)
            return
        one.gone = one.gone if one.gone is not None else time.monotonic()
        if client.refusal:
            self._fail(one, REFUSED, client.refusal)
        elif time.monotonic() - one.gone > LOST:
            lost = "its connection was lost" if one.process else "it is not connected"
            self._fail(one, CRASHED if one.process else AWAY, f"{lost} for {LOST:g} s")

    def _fail(self, one: _Pending, reason: str, why: str) -> None:
        self.pending.pop(one.request.id, None)
        self.session.log(client=one.name, request=one.request.id, outcome=reason, why=why)
        self._failed.append(ClientFailure(one.request.client, one.request.id, reason, why))

    def _read(self, message: SignedMessage) -> PoolOutcome | None:
        """The outcome that a client has sent; None if no request waits for it."""
        id = str(message.fields.get("request", ""))
        client, one = self.session.clients[message.sender], self.pending.get(id)
        if one is None or one.name != message.sender:
            client.late.discard(id)
            self.session.log(client=message.sender, request=id, outcome="dropped")
            return None
        if message.kind == "missing":
            client.broadcast, one.process = "", ""
            if message.fields.get("what") == "job":
                client.job = ""
            return None
        try:
            outcome = self._checked(one, message)
        except WireError as error:
            outcome = ClientFailure(one.request.client, id, REFUSED, str(error))
        del self.pending[id]
        failed = isinstance(outcome, ClientFailure)
        why = {"why": outcome.detail} if isinstance(outcome, ClientFailure) else {}
        result = outcome.reason if isinstance(outcome, ClientFailure) else "reply"
        self.session.log(
            client=one.name, request=id, outcome=result, bytes=len(message.body), **why
        )
        if not failed and message.fields.get("afresh"):
            self.session.print_line(f"  {one.name} had lost its state and has begun a new one")
            self.session.log(client=one.name, request=id, afresh=one.request.state_id)
        return outcome

    def _checked(self, one: _Pending, message: SignedMessage) -> PoolOutcome:
        """Decode a reply, and check that it is what it must be."""
        most = SMALL + LARGER * len(one.broadcast)
        found = decode(message.body, device=self.device, most=most)
        request = one.request
        if isinstance(found, ClientFailure):
            return replace(found, client=request.client, request=request.id)
        if not isinstance(found, ClientReply):
            raise WireError("expected a reply. Use the same version on both sides.")
        reply = found.reply
        if reply.request != request.id or reply.client != request.client:
            raise WireError("a reply is to another request. Use the same version on both sides.")
        size = self.session.clients[one.name].profile
        if request.broadcast.instruction.trains and size and reply.examples != size["examples"]:
            raise WireError(
                f"a reply has the weight of {reply.examples:,} examples, and the client joined "
                f"with {size['examples']:,}. Join again with the data."
            )
        self.form.check(reply, request.broadcast, one.name)
        if found.kept and self.ids is not None:
            self.ids.made(request.id)
        return reply, {}

    def _with_state_id(self, request: Request) -> Request:
        if self.ids is None:
            return request
        current, keep = self.ids.current(request.client), self.ids.keep(request.client)
        return replace(request, state={}, state_id=current, keep=keep)

    def _encoded(self, broadcast: Broadcast) -> bytes:
        if self._last is None or self._last[0] is not broadcast:
            self._last = broadcast, encode(broadcast)
            size = len(self._last[1]) + SIGNED
            if size > self.session.most:
                raise SettingError(
                    f"deploy: the model of a round takes {size:,} bytes, and messages may have "
                    f"{self.session.most:,}. Allow more: --max-message {ceil(size / 1e4) / 100:g}."
                )
            self.session.transfer = len(self._last[1]) / SLOWEST
        return self._last[1]

    def close(self) -> None:
        """Forget the requests that wait."""
        with suppress(KeyError):
            self.begin()


@register("executor", "deployed")
@dataclass(frozen=True, repr=False)
class Deployed(TextSpec):
    """Clients on other machines. `fedflat deploy serve` uses it, and `fedflat resume` goes on.

    Args:
        path: The folder of the federation.
        run: The id of the run.
        least: How many clients must be online for a round to begin.
        round_timeout: Seconds after which an exchange ends without late clients. None: wait.
        wait: Seconds to wait for clients before the run is given up.
        most: The largest number of bytes of a message.
    """

    path: str
    run: str = ""
    least: int = 1
    round_timeout: float | None = None
    wait: float = 300.0
    most: int = MOST_MESSAGE

    def __post_init__(self) -> None:
        number("deployed", "least", self.least, low=1, whole=True)
        number("deployed", "wait", self.wait, low=0, high=LONGEST_WAIT)
        number("deployed", "most", self.most, low=1, high=LARGEST, whole=True)
        if self.round_timeout is not None:
            longest = LONGEST_WAIT
            number(
                "deployed", "round_timeout", self.round_timeout, low=0, high=longest, open_low=True
            )

    @contextmanager
    def open(self, job: ClientJob, fed: Federation, source: Source) -> Iterator[NetworkPool]:
        """Send the job to the clients; the session is that of this process, or a new one."""
        if fed.here:
            raise SettingError(
                "deployed: the data of this run are here. Use `fedflat deploy serve`, or another "
                "executor."
            )
        hidden = {
            **job.experiment,
            "on": repr(RemoteClients("", self.run)),
            "plugins": [plugin | {"place": ""} for plugin in job.experiment.get("plugins", ())],
        }
        spec = spec_of_job(replace(job, experiment=hidden))
        check_noise(from_json(hidden).method)
        session = SESSIONS.get(self.run)
        started = session is None
        if session is None:
            session = start_session(self, job.seed)
        if not session.members:
            joined = RemoteClients(self.path, self.run).joined()
            session.begin([one["name"] for one in joined], joined)
        session.least, session.wait = self.least, self.wait
        pool = NetworkPool(session, ReplyForm.of(job), job.learner.device, self.round_timeout)
        try:
            session.use_job(encode(spec))
            yield pool
            if started:
                session.end()
        finally:
            pool.close()
            if started:
                session.close()


def check_noise(method: Method) -> None:
    """Refuse noise that participants could subtract, as the seed of the run is sent to them."""
    for piece in method.server:
        if isinstance(piece, PrivateMean) and piece.noise and not piece.secret:
            raise SettingError(
                "dp: all participants of a deployment know the seed of the run, from which this "
                "noise comes, and could subtract it. Write dp(..., secret=True)."
            )


def start_session(executor: Deployed, seed: int, print_line: PrintLine = print) -> Session:
    """Open the server's port, and begin to receive messages."""
    from fedflat.deploy.cells import CellTransport

    folder = open_federation_folder(Path(executor.path))
    folder.identity()
    transport = CellTransport(
        folder.listens_on, folder.port, folder.credentials(), folder.path, executor.most
    )
    return Session(
        folder, transport, run=executor.run, seed=seed, most=executor.most, print_line=print_line
    )
