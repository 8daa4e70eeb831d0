"""The server's side of a run: who is there, what each has been sent, and what came back.

A client that connects sends hello, with its version, every few seconds. The server offers the run;
the client opens its data and describes them; the server sends the job; the client is ready. All of
it is repeated for a client that comes back, and for all clients after the server has come back.
Requests and replies are the pool's (`executor.py`).
"""

from __future__ import annotations

import json
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedflat.core.json_schema import check
from fedflat.data.sets.remote_clients import CLIENT, ONLINE
from fedflat.deploy.certificates import SERVER, load_key
from fedflat.deploy.envelope import Reader, RejectedMessage, SignedMessage, Signer
from fedflat.deploy.federation_folder import RUNS, FederationFolder
from fedflat.deploy.status import StatusFile
from fedflat.deploy.transport import Transport
from fedflat.errors import PrintLine, RunError, SettingError, printable
from fedflat.execution.wire_envelope import message_id
from fedflat.files import Damaged, write_file
from fedflat.version import __version__

ALIVE = 45.0
"""Seconds after its last hello in which a client counts as online."""
SLOWEST = 10**6
"""Bytes per second of the slowest connection that is expected: hellos wait behind replies."""
AGAIN = 10.0
"""Seconds after which what a client has not answered is sent again."""
STEP = 0.2
"""Seconds between two looks at who is there."""
LEAVE = 20.0
"""Seconds that clients have to leave when the run is over."""
MOST_MESSAGE = 2**30
"""Bytes of the largest message, by default."""
SESSIONS: dict[str, Session] = {}
"""The sessions of this process, by run."""


@dataclass
class ClientLink:
    """What the server knows of a client."""

    name: str
    process: str = ""
    """The session of the client's process; empty if it has never sent hello."""
    seen: float = -ALIVE
    """When it last sent hello."""
    profile: dict[str, Any] | None = None
    job: str = ""
    """The id of the job that it is ready for."""
    refusal: str = ""
    """Why it does not take part."""
    broadcast: str = ""
    """The id of the last broadcast that its process was sent."""
    requested_at: float = -AGAIN
    """When it was last sent an offer or a job."""
    busy: str = ""
    """The request that it works on, as in its last hello."""
    late: set[str] = field(default_factory=set)
    """Requests that were given up, and that it may still work on."""
    sent: int = 0
    received: int = 0
    """Bytes."""


class Session:
    """The server of one run.

    Args:
        folder: The federation.
        transport: Carries the messages.
        run: The id of the run.
        seed: The seed of the run, from which clients split their data.
        most: The largest number of bytes of a message that is read.
        print_line: Prints a line.
    """

    def __init__(
        self,
        folder: FederationFolder,
        transport: Transport,
        *,
        run: str,
        seed: int,
        most: int = MOST_MESSAGE,
        print_line: PrintLine = print,
    ) -> None:
        self.folder = folder
        self.transport = transport
        self.run = run
        self.seed = seed
        self.print_line = print_line
        identity, certificates = folder.identity(), folder.certificates()
        for why in folder.expired():
            print_line(f"  {why}")
        self.most, self.id = most, secrets.token_hex(8)
        self.signer = Signer(SERVER, load_key(identity.key, "the server's key"))
        self.reader = Reader(SERVER, certificates, most)
        self.clients = {name: ClientLink(name) for name in certificates}
        self.members: list[str] = []
        """The clients of the run, in their order; empty before it has begun."""
        self.numbers: dict[str, int] = {}
        """The place of each in this order."""
        self.joined: dict[str, dict[str, Any] | None] = {}
        """What each reported about its data when the run began."""
        self.check_profile: Callable[[dict[str, Any]], None] = lambda profile: None
        """Raises `SettingError` for a client whose data do not fit."""
        self.replies: deque[SignedMessage] = deque()
        """What clients have answered and the pool has not taken."""
        self.job, self.job_id = b"", ""
        self.round = 0
        self.over = False
        """Whether the run is done and its clients may leave."""
        self.online_in: dict[int, list[int]] = {}
        """By round: the clients that were online when its cohort was drawn."""
        self.least, self.wait = 1, 300.0
        self.transfer = 0.0
        """Seconds that a model takes to a client on the slowest connection."""
        self.rejected: dict[str, int] = {}
        """How often messages were not read, by reason."""
        self._log = folder.path / RUNS / f"{run}.jsonl"
        self._status = StatusFile(self)
        SESSIONS[run] = self
        ONLINE[run] = self.online_for

    def push(self, name: str, kind: str, body: bytes = b"", **fields: Any) -> bool:
        """Send a message to a client; False if it is not connected."""
        content = self.signer.seal(name, kind, self.id, body, **fields)
        if not self.transport.push(name, content):
            return False
        if name in self.clients:
            self.clients[name].sent += len(content)
        return True

    def pump(self, timeout: float = 0.0) -> None:
        """Handle what clients have sent; wait up to ``timeout`` seconds for something."""
        for content in self.transport.pull(timeout):
            try:
                message = self.reader.open(content)
            except RejectedMessage as error:
                self._not_read(error)
                continue
            client = self.clients[message.sender]
            client.received += len(content)
            client.seen = time.monotonic()
            self._handle(client, message)
        self._status.write()

    def online(self) -> list[str]:
        """The clients that are connected, alive, and ready for the job, sorted."""
        connected = self.transport.online() & self.clients.keys()
        return sorted(name for name in connected if self._is_ready(name))

    def is_online(self, name: str) -> bool:
        """Whether a client is among those that `online` returns."""
        return name in self.transport.online() and self._is_ready(name)

    def _is_ready(self, name: str) -> bool:
        client = self.clients[name]
        return (
            time.monotonic() - client.seen < ALIVE + self.transfer
            and client.profile is not None
            and not client.refusal
            and client.job == self.job_id
            and (not self.members or name in self.numbers)
        )

    def begin(self, members: Iterable[str], joined: Iterable[dict[str, Any]] = ()) -> None:
        """Fix the clients of the run and their order.

        Args:
            members: Their names.
            joined: What they reported about their data, if the run began in an earlier session.
        """
        self.members = list(members)
        self.joined = {name: self.clients[name].profile for name in self.members if not joined}
        self.joined |= {profile["name"]: profile for profile in joined}
        self.numbers = {name: place for place, name in enumerate(self.members)}
        for name in self.members:
            self.clients.setdefault(name, ClientLink(name))

    def write_clients(self) -> None:
        """Write what the clients of the run reported about their data."""
        clients = [self.joined[name] for name in self.members]
        text = json.dumps({"clients": clients}, indent=1)
        write_file(self.folder.path / RUNS / f"{self.run}.json", text.encode())

    def use_job(self, job: bytes) -> None:
        """Send a job to all clients, and wait until those that are there are ready."""
        self.job, self.job_id = job, message_id(job)
        for name in self.members:
            self._send_job(self.clients[name])
        self.wait_until(self._all_answered, "ready for the job")

    def _all_answered(self) -> bool:
        return all(
            client.refusal or client.job == self.job_id
            for client in map(self.clients.__getitem__, self.members)
        )

    def wait_until(self, done: Callable[[], bool], what: str) -> None:
        """Wait until something holds, or until ``wait`` seconds are over and enough are online."""
        end, next_line = time.monotonic() + self.wait, time.monotonic() + AGAIN
        while not done():
            self.pump(STEP)
            now = time.monotonic()
            if now > end:
                break
            if now > next_line:
                next_line = now + 30.0
                self.print_line(f"  waiting for {_names(self._absent())} to be {what}")
        found = len(self.online())
        if found < self.least:
            then = "`fedflat deploy serve --resume RUN_FOLDER`" if self.job else "the same command"
            raise RunError(
                f"deploy: after {self.wait:g} s, {found} of the {self.least} clients that are "
                f"needed are {what}. Missing: {_names(self._absent())}. See what is wrong there, "
                f"then go on with {then}."
            )

    def _absent(self) -> list[str]:
        online = set(self.online())
        return [name for name in self.members or self.clients if name not in online]

    def online_for(self, round: int) -> Sequence[int]:
        """The clients among which the cohort of a round is drawn, by number; asked once."""
        if round not in self.online_in:
            self.pump()
            if len(self._free()) < self.least:
                self.wait_until(lambda: len(self._free()) >= self.least, "online")
            free = self._free()
            self.online_in = {round: [self.numbers[name] for name in free]}
            self.round = round
            if self.job:
                self.log(round=round, online=free)
        return self.online_in[round]

    def _free(self) -> list[str]:
        """The clients that are online and do not work on an abandoned request, in the run's
        order."""
        online = set(self.online())
        return [name for name in self.members if name in online and not self.clients[name].late]

    def log(self, **entry: Any) -> None:
        """Append a line to the log of the run."""
        with self._log.open("a") as file:
            file.write(json.dumps({"time": round(time.time(), 3), **entry}) + "\n")

    def end(self) -> None:
        """Tell all clients that the run is over, and wait until they have left.

        A transport that is closed at once may lose the message, and the client would wait for the
        server to come back.
        """
        self.over = True
        limit, last = time.monotonic() + LEAVE, -LEAVE
        while here := self.transport.online() & self.clients.keys():
            now = time.monotonic()
            if now > limit:
                break
            if now - last > 1.0:
                last = now
                for name in here:
                    self.push(name, "end")
            self.pump(STEP)

    def close(self) -> None:
        self._status.write(closed=True)
        self.transport.close()
        SESSIONS.pop(self.run, None)
        ONLINE.pop(self.run, None)

    def _handle(self, client: ClientLink, message: SignedMessage) -> None:
        if message.kind == "hello":
            self._hello(client, message.fields)
        elif message.session != self.id:
            self.log(client=client.name, dropped=message.kind, why="of an earlier session")
        elif message.kind == "profile":
            self._profile(client, message.fields)
        elif message.kind == "refusal":
            self._refused(client, str(message.fields.get("why", "")))
        elif message.kind == "ready":
            client.job = str(message.fields.get("job", ""))
        elif message.kind in ("reply", "missing"):
            self.replies.append(message)

    def _hello(self, client: ClientLink, fields: dict[str, Any] | Any) -> None:
        process, version = str(fields.get("process", "")), str(fields.get("version", ""))
        client.busy = str(fields.get("busy", ""))
        if process != client.process:
            what = "is back" if client.process else "is here"
            self.print_line(f"  {client.name} {what}")
            self.log(client=client.name, joined=process)
            client.process, client.job, client.broadcast = process, "", ""
            client.refusal, client.profile = "", None
            client.late.clear()
            client.requested_at = -AGAIN
        if version != __version__:
            self.refuse(
                client,
                f"the server has fedflat {__version__} and {client.name} has {version[:20]}. Use "
                "the same version on both sides.",
            )
            return
        if fields.get("server") != self.id:
            if time.monotonic() - client.requested_at > AGAIN:
                client.job, client.broadcast, client.requested_at = "", "", time.monotonic()
                self.push(client.name, "offer", run=self.run, seed=self.seed, most=self.most)
        elif self.job_id and fields.get("job") != self.job_id:
            if not fields.get("busy") and time.monotonic() - client.requested_at > AGAIN:
                self._send_job(client)
        elif self.job_id:
            client.job = self.job_id

    def _profile(self, client: ClientLink, fields: Any) -> None:
        try:
            check(dict(fields), CLIENT)
        except Damaged as error:
            self._refused(client, f"its description cannot be read: {error}")
            return
        if self.members and client.name not in self.members:
            self.refuse(client, "this run has begun without you. Join the next one.")
            return
        if fields["examples"] < 1 or fields["tests"] < 0:
            self.refuse(client, f"it says that it has {fields['examples']:,} examples. Add data.")
            return
        profile = dict(fields) | {"name": client.name}
        try:
            self._check_same(profile)
            self.check_profile(profile)
        except SettingError as error:
            self.refuse(client, str(error))
            return
        client.profile = profile
        if self.job:
            self._send_job(client)

    def _check_same(self, profile: dict[str, Any]) -> None:
        """Refuse a client that comes back with other data: the run knows how many it had."""
        before = self.joined.get(profile["name"]) or profile
        for what, value in before.items():
            if profile[what] != value:
                raise SettingError(
                    f"{profile['name']} began this run with {what} {value}, and has {what} "
                    f"{profile[what]} now. Join with the same data, or join the next run."
                )

    def _send_job(self, client: ClientLink) -> None:
        if client.profile is None or client.refusal:
            return
        client.requested_at = time.monotonic()
        self.push(client.name, "job", self.job)

    def refuse(self, client: ClientLink, why: str) -> None:
        """Tell a client that it cannot take part, and why."""
        self.push(client.name, "refused", why=why)
        self._refused(client, why)

    def _refused(self, client: ClientLink, why: str) -> None:
        if client.refusal != why:
            client.refusal = why
            self.print_line(f"  {client.name} does not take part: {printable(why)}")
            self.log(client=client.name, refused=why)

    def _not_read(self, error: RejectedMessage) -> None:
        why = str(error)
        self.rejected[why] = self.rejected.get(why, 0) + 1
        if self.rejected[why] == 1:
            self.print_line(f"  a message was not read: {printable(why)}")
            self.log(unread=why)
        if error.sender and error.sender not in self.clients:
            self.push(
                error.sender,
                "refused",
                why=f"{error.sender} is not registered here. Ask the server's owner for a new "
                "file, or for the client's certificate in clients/ to be put back.",
            )


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8]) or "no client"
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
