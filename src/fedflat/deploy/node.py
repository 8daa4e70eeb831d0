"""A client: it joins a federation with its own data, and answers the server's requests.

It runs installed code only: the server sends text and tensors. Its states are in its own folder,
each under the id of the request that made it, and survive its restart.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import torch

from fedflat.client.state_store import StateStore
from fedflat.client.training import ClientJob, Request
from fedflat.core.failures import CRASHED, REFUSED, ClientFailure
from fedflat.data.examples import ClientData
from fedflat.data.federation import DataSpec, Federation
from fedflat.data.sets.other_examples import without_labels
from fedflat.data.sets.remote_clients import describe
from fedflat.deploy.certificates import SERVER, load_certificate, load_key
from fedflat.deploy.envelope import SIGNED, Reader, RejectedMessage, SignedMessage, Signer
from fedflat.deploy.federation_folder import Participant, deployment_text
from fedflat.deploy.transport import LARGEST, Link
from fedflat.errors import FedflatError, PrintLine, SettingError, printable, shown
from fedflat.execution.client_runtime import ClientRuntime
from fedflat.execution.wire_envelope import message_id
from fedflat.execution.wire_format import JobSpec, RequestMessage, WireError, decode, encode
from fedflat.experiments.experiment import from_json
from fedflat.experiments.job_spec import job_of_spec
from fedflat.files import hold, own_folder
from fedflat.version import __version__

BEAT = 3.0
"""Seconds between two hellos."""
STEP = 0.5
"""Seconds between two looks at the connection."""
OVERTAKES = 20.0
"""Seconds by which a request may come before its broadcast: the transport keeps no order."""


class RunEnded(Exception):
    """The run is over."""


@dataclass(frozen=True)
class NodeSettings:
    """How a client takes part."""

    data: DataSpec
    part: int | None
    """Which client of the data it is; None: the data have one client only."""
    folder: Path
    """Where its states are."""
    threads: int = 1
    device: str = "cpu"
    wait: float = 300.0
    """Seconds to wait for a server that is not there."""
    most: int = LARGEST
    """Bytes of the largest message that is read."""


class NetworkRuntime(ClientRuntime):
    """A client that begins a new state if it has lost the one that the server names."""

    afresh = False
    """Whether the last request was answered with a new state."""

    def _answer(self, request: Request) -> bytes:
        self.afresh = False
        if request.state_id is not None and self.stores is not None:
            store = self.stores(request.client)
            if store.get(request.state_id) is None:
                self.afresh = True
                request = replace(request, state_id=None)
        return super()._answer(request)


class Node:
    """One client of a federation.

    Args:
        participant: The file that the client was given.
        settings: Its data, its folder, its resources.
        link: Opens the connection, given the folder for its files.
        print_line: Prints a line.
    """

    def __init__(
        self,
        participant: Participant,
        settings: NodeSettings,
        link: Callable[[Participant, NodeSettings], Link],
        print_line: PrintLine = print,
    ) -> None:
        self.participant, self.settings, self.print_line = participant, settings, print_line
        self.name, self.process = participant.client, secrets.token_hex(8)
        self.signer = Signer(self.name, load_key(participant.key.encode(), "the client's key"))
        server = load_certificate(participant.server.encode(), "the server's certificate")
        self.reader = Reader(self.name, {SERVER: server}, settings.most)
        self.server, self.run_id, self.job_id, self.busy = "", "", "", ""
        self.broadcasts: dict[str, bytes] = {}
        self.early: dict[str, tuple[bytes, float]] = {}
        """Requests without their broadcast, by its id, and when they came."""
        self.runtime: NetworkRuntime | None = None
        self.most_reply = LARGEST
        """Bytes of the largest message that the server reads."""
        self._open_link = link
        self._data: tuple[int, Federation, ClientData] | None = None

    def run(self) -> None:
        """Take part until the run is over; raises `FedflatError` if that is not possible."""
        torch.set_num_threads(self.settings.threads)
        own_folder(self.settings.folder)
        with hold(self.settings.folder):
            self.link = self._open_link(self.participant, self.settings)
            stop = threading.Event()
            beat = threading.Thread(target=self._beat, args=(stop,), daemon=True)
            beat.start()
            try:
                self._serve()
            except RunEnded:
                self.print_line(f"{self.name}: the run is over")
            finally:
                stop.set()
                beat.join()
                self.link.close()

    def _serve(self) -> None:
        away = time.monotonic()
        away_shown = False
        while True:
            content = self.link.receive(STEP)
            self._ask_for_broadcasts()
            if content is not None:
                away = time.monotonic()
                away_shown = False
                self._handle(content)
            elif self.link.connected():
                away = time.monotonic()
            elif time.monotonic() - away > self.settings.wait:
                raise SettingError(
                    f"no server answers at {self.participant.host}:{self.participant.port} for "
                    f"{self.settings.wait:g} s: {why_unreachable(self.participant)}. Start the "
                    "server, or ask its owner."
                )
            elif time.monotonic() - away > 3.0 and not away_shown:
                away_shown = True
                self.print_line(
                    f"{self.name}: waiting for the server at {self.participant.host}:"
                    f"{self.participant.port} ({why_unreachable(self.participant)})"
                )

    def _beat(self, stop: threading.Event) -> None:
        """Send hello every few seconds, also while the client trains."""
        first = True
        while not stop.wait(0.05 if first else BEAT):
            if self.link.connected():
                first = False
                self._hello()

    def _hello(self) -> None:
        self._send(
            "hello",
            process=self.process,
            version=__version__,
            server=self.server,
            job=self.job_id,
            busy=self.busy,
        )

    def _send(self, kind: str, body: bytes = b"", **fields: Any) -> bool:
        content = self.signer.seal(SERVER, kind, self.server, body, **fields)
        return self.link.send(content)

    def _handle(self, content: bytes) -> None:
        try:
            message = self.reader.open(content)
        except RejectedMessage as error:
            self.print_line(f"{self.name}: a message was not read: {printable(str(error))}")
            return
        if message.kind == "offer":
            self._offer(message)
        elif message.kind == "refused":
            raise SettingError(f"the server refuses {self.name}: {message.fields.get('why')}")
        elif message.session != self.server:
            return
        elif message.kind == "job":
            self._job(message.body)
        elif message.kind == "broadcast":
            id = message_id(message.body)
            self.broadcasts = dict([*self.broadcasts.items()][-1:]) | {id: message.body}
            if id in self.early:
                self._request(self.early.pop(id)[0])
        elif message.kind == "request":
            self._request(message.body)
        elif message.kind == "end":
            raise RunEnded

    def _offer(self, message: SignedMessage) -> None:
        run = str(message.fields.get("run", ""))
        if not run.isalnum():
            raise SettingError(f"the server names a run {shown(run)}, which cannot be a folder's.")
        self.server, self.run_id = message.session, run
        self.most_reply = int(message.fields.get("most", LARGEST))
        self.job_id, self.broadcasts, self.early = "", {}, {}
        self.print_line(f"{self.name}: asked to take part in the run {self.run_id}")
        try:
            fed, data = self._opened(int(message.fields["seed"]))
            self._send("profile", **describe(self.name, data, fed.classes, self.settings.data))
        except FedflatError as error:
            self._refuse(error)

    def _refuse(self, error: FedflatError) -> NoReturn:
        self._send("refusal", why=str(error))
        time.sleep(0.2)  # let it leave
        raise error

    def _opened(self, seed: int) -> tuple[Federation, ClientData]:
        """The client's data; opened once for all runs with the same seed."""
        if self._data is None or self._data[0] != seed:
            fed = self.settings.data.open(seed)
            part = self.settings.part
            if part is None and fed.population != 1:
                raise SettingError(
                    f"{self.settings.data} has {fed.population} clients, and this is one. Write "
                    "clients=1 in the data, or name one of them: --part 0."
                )
            if part is not None and not 0 <= part < fed.population:
                raise SettingError(
                    f"--part must be from 0 to {fed.population - 1} for {self.settings.data}, "
                    f"found {part}."
                )
            if self.settings.device != "cpu":
                fed = fed.to(self.settings.device)
            self._data = seed, fed, fed.data(part or 0)
        return self._data[1], self._data[2]

    def _job(self, content: bytes) -> None:
        try:
            spec = decode(content, device=self.settings.device)
            if not isinstance(spec, JobSpec):
                raise WireError("expected a job. Use the same version on both sides.")
            job = job_of_spec(spec, device=self.settings.device)
            fed, data = self._opened(job.seed)
            if data.examples.shape != job.learner.shape:
                raise SettingError(
                    f"the model takes inputs of shape {job.learner.shape}, and the data here have "
                    f"{data.examples.shape}. Use data of the same form as the other clients."
                )
            exp = from_json(spec.settings["experiment"])
            if any(piece.unsupervised for piece in exp.method.client):
                data = without_labels(fed).data(self.settings.part or 0)
        except FedflatError as error:
            self._refuse(error)
        self.runtime = self._runtime(job, data)
        self.job_id = message_id(content)
        self.print_line(f"{self.name}: {exp.method}, {exp.model}, {exp.rounds} rounds")
        self.print_line(deployment_text(exp, spec.settings["measures"]))
        self._send("ready", job=self.job_id)

    def _runtime(self, job: ClientJob, data: ClientData) -> NetworkRuntime:
        place = self.settings.folder / f"run-{self.run_id}"
        store = StateStore(place, self.settings.device)
        return NetworkRuntime(job, lambda client: data, lambda client: store)

    def _request(self, content: bytes) -> None:
        message = decode(content, device=self.settings.device)
        if not isinstance(message, RequestMessage):
            return
        if self.runtime is None or not self.job_id:
            self._send("missing", request=message.id, what="job")
            return
        broadcast = self.broadcasts.get(message.broadcast)
        if broadcast is None:
            self.early[message.broadcast] = content, time.monotonic()
            return
        self.busy, began = message.id, time.monotonic()
        try:
            answer, afresh = self._answer(message, broadcast, content)
        finally:
            self.busy = ""
        self._deliver(answer, message.id, afresh)
        spent = time.monotonic() - began
        self.print_line(
            f"{self.name}: answered {message.id} in {spent:.1f} s, {len(answer):,} bytes"
        )
        if afresh:
            self.print_line(
                f"{self.name}: the state {message.state_id} was lost, and a new one is begun"
            )

    def _ask_for_broadcasts(self) -> None:
        """Ask for broadcasts that did not follow their requests."""
        for id, (content, came) in list(self.early.items()):
            if time.monotonic() - came > OVERTAKES:
                del self.early[id]
                message = decode(content, device=self.settings.device)
                assert isinstance(message, RequestMessage)
                self._send("missing", request=message.id, what="broadcast")

    def _deliver(self, answer: bytes, request: str, afresh: bool) -> None:
        """Send a reply; while the server is away, wait for it."""
        end = time.monotonic() + self.settings.wait
        while not self._send("reply", answer, request=request, afresh=afresh):
            if time.monotonic() > end:
                return
            time.sleep(STEP)

    def _answer(
        self, message: RequestMessage, broadcast: bytes, content: bytes
    ) -> tuple[bytes, bool]:
        """The answer to a request, and whether the client's state is a new one."""
        assert self.runtime is not None
        try:
            answer = self.runtime.handle(broadcast, content)
            if len(answer) + SIGNED > self.most_reply:
                why = (
                    f"the reply would have {len(answer) + SIGNED:,} bytes, and the server reads at "
                    f"most {self.most_reply:,}. It can allow more: --max-message."
                )
                self.print_line(f"{self.name}: {message.id} failed: {why}")
                failure = ClientFailure(message.client, message.id, REFUSED, why)
                return encode(failure), False
            return answer, self.runtime.afresh
        except (FedflatError, OSError) as error:
            self.print_line(f"{self.name}: {message.id} failed: {printable(str(error))}")
            return encode(ClientFailure.by(error, message.client, message.id, CRASHED)), False


def open_cell_link(participant: Participant, settings: NodeSettings) -> Link:
    """The connection of a client to its server."""
    from fedflat.deploy.cells import CellLink

    credentials = participant.write_credentials(settings.folder)
    return CellLink(
        participant.client, participant.url, credentials, settings.folder, settings.most
    )


def why_unreachable(participant: Participant) -> str:
    """Why the server cannot be reached, as far as a connection of our own shows it."""
    try:
        load_certificate(participant.certificate.encode(), "this client's certificate")
    except SettingError as error:
        return str(error).rstrip(".")
    try:
        plain = socket.create_connection((participant.host, participant.port), timeout=3.0)
    except OSError as error:
        return f"nothing listens there: {error.strerror or error}"
    with plain:
        if not participant.tls:
            return "it listens, and has not answered yet"
        context = ssl.create_default_context(cadata=participant.ca)
        context.set_alpn_protocols(["h2"])
        try:
            with context.wrap_socket(plain, server_hostname=participant.host):
                return "it listens, and has not answered yet"
        except ssl.SSLCertVerificationError as error:
            return f"its certificate is not that of this federation: {error.verify_message}"
        except OSError as error:
            return f"TLS fails: {error}"
