"""The transport on NVIDIA FLARE's cell network: gRPC with mutual TLS, no jobs and no code.

A cell is a named end of a connection. The cell of a client has the client's name, and FLARE checks
it against the common name of the certificate that the client's TLS connection has. Only bytes of
our channel to and from the server are let through: no other handler of a cell is ever reached, and
clients cannot reach each other. The server uses FLARE's asynchronous gRPC driver, which needs no
thread per connection. This is the only module that imports nvflare.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedflat.deploy.certificates import SERVER
from fedflat.deploy.transport import LARGEST, require_extra
from fedflat.errors import RunError, SettingError
from fedflat.files import own_folder, write_file

if TYPE_CHECKING:
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell
    from nvflare.fuel.f3.message import Message

CHANNEL, UP, DOWN = "fedflat", "up", "down"
FRAMING = 2**20
"""Bytes that FLARE may add to a message."""
RETRY = 3
"""Most seconds between two tries of a client to connect."""
OPENS = 10.0
"""Seconds in which the server's port must be open."""


class _Cell:
    """A cell of this process, and what it has received.

    Args:
        name: The name of the cell.
        url: Where the server listens, as this cell writes it.
        credentials: Files of the CA, the certificate and the key, by FLARE's names; none without TLS.
        folder: For FLARE's settings and its log.
        most: The largest number of bytes that is received.
    """

    def __init__(
        self, name: str, url: str, credentials: dict[str, str], folder: Path, most: int
    ) -> None:
        require_extra()
        self.name, self.url, self.credentials = name, url, credentials
        self.inbox: queue.Queue[bytes] = queue.Queue()
        _configure(folder, most)
        self.cell = self._open()

    def _open(self) -> CoreCell:
        from nvflare.fuel.f3.cellnet.core_cell import CoreCell

        _forget(self.name)
        try:
            cell = CoreCell(self.name, self.url, bool(self.credentials), dict(self.credentials))
        except Exception as error:
            raise SettingError(
                f"deploy: the certificates are refused: {error}. Use those that `fedflat deploy "
                "init` wrote, and check that they have not expired."
            ) from None
        cell.add_incoming_filter("*", "*", self._filter)
        cell.register_request_cb(CHANNEL, UP if self.name == SERVER else DOWN, self._take)
        cell.start()
        return cell

    def _filter(self, message: Message) -> Message | None:
        """Drop every message but ours; runs before anything in it is decoded."""
        from nvflare.fuel.f3.cellnet.defs import Encoding, MessageHeaderKey, MessageType
        from nvflare.fuel.f3.cellnet.utils import make_reply

        head = message.headers
        ours = (
            head.get(MessageHeaderKey.CHANNEL) == CHANNEL
            and head.get(MessageHeaderKey.MSG_TYPE) == MessageType.REQ
            and head.get(MessageHeaderKey.PAYLOAD_ENCODING) == Encoding.BYTES
            and head.get(MessageHeaderKey.DESTINATION) == self.name
        )
        return None if ours else make_reply("forbidden")

    def _take(self, message: Message) -> None:
        self.inbox.put(message.payload)

    def send(self, to: str, topic: str, content: bytes) -> bool:
        """Send bytes to another cell; False if it is not connected."""
        from nvflare.fuel.f3.message import Message

        if to not in self.cell.agents:
            return False
        failed = self.cell.fire_and_forget(CHANNEL, topic, to, Message({}, content), optional=True)
        return not any(failed.values())

    def close(self) -> None:
        self.cell.agents.clear()  # a cell that stops sends goodbye to each, one after the other
        self.cell.stop()
        _forget(self.name)


class CellTransport:
    """The server's end of the cell network.

    Args:
        host: The address to listen on.
        port: The port to listen on.
        credentials: See `_Cell`.
        folder: See `_Cell`.
        most: See `_Cell`.
    """

    def __init__(
        self, host: str, port: int, credentials: dict[str, str], folder: Path, most: int
    ) -> None:
        check_free(host, port)
        self.host, self.port = host, port
        self._cell = _Cell(SERVER, f"agrpc://{host}:{port}", credentials, folder, most)
        self._check_open()

    def online(self) -> frozenset[str]:
        """The names of the connected cells."""
        return frozenset(self._cell.cell.agents)

    def push(self, client: str, content: bytes) -> bool:
        return self._cell.send(client, DOWN, content)

    def pull(self, timeout: float) -> Sequence[bytes]:
        """Wait for messages."""
        found: list[bytes] = []
        try:
            found.append(self._cell.inbox.get(timeout=max(timeout, 0.0)))
            while True:
                found.append(self._cell.inbox.get_nowait())
        except queue.Empty:
            return found

    def reopen(self) -> None:
        """Close the port and open it again."""
        self._cell.close()
        self._cell.cell = self._cell._open()
        self._check_open()

    def close(self) -> None:
        self._cell.close()

    def _check_open(self) -> None:
        """FLARE does not report that it cannot listen: see whether somebody answers."""
        host = "127.0.0.1" if self.host == "0.0.0.0" else self.host
        end = time.monotonic() + OPENS
        while True:
            try:
                socket.create_connection((host, self.port), timeout=1.0).close()
                return
            except OSError as error:
                if time.monotonic() > end:
                    raise RunError(
                        f"deploy: {self.host}:{self.port} could not be opened ({error}). See "
                        "transport.log in the federation's folder."
                    ) from None
                time.sleep(0.05)


class CellLink:
    """A client's end of the cell network; it connects again whenever the server is back."""

    def __init__(
        self, name: str, url: str, credentials: dict[str, str], folder: Path, most: int
    ) -> None:
        self._cell = _Cell(name, url, credentials, folder, most)

    def connected(self) -> bool:
        """Whether the server's cell is connected."""
        return SERVER in self._cell.cell.agents

    def send(self, content: bytes) -> bool:
        return self._cell.send(SERVER, UP, content)

    def receive(self, timeout: float) -> bytes | None:
        """The next message of the server."""
        try:
            return self._cell.inbox.get(timeout=timeout)
        except queue.Empty:
            return None

    def close(self) -> None:
        self._cell.close()


def _forget(name: str) -> None:
    """Remove what FLARE keeps of a cell that was stopped: it allows no second cell of the name."""
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell
    from nvflare.fuel.f3.stats_pool import StatsPoolManager

    CoreCell.ALL_CELLS.pop(name, None)
    for pool in [pool for pool in StatsPoolManager.pools if pool.endswith(f"@{name}")]:
        del StatsPoolManager.pools[pool]


def check_free(host: str, port: int) -> None:
    """Refuse a port that another process listens on."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise SettingError(
                f"deploy: {host}:{port} cannot be listened on ({error.strerror or error}). Another "
                "process may use the port: stop it, or make the federation with another one."
            ) from None


def _configure(folder: Path, most: int) -> None:
    """FLARE's settings for this process, and its log."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it would print failed handshakes of strangers
    from nvflare.fuel.f3.comm_config import CommConfigurator
    from nvflare.fuel.f3.sfm import conn_manager
    from nvflare.fuel.utils.config_service import ConfigService

    conn_manager.MAX_WAIT = RETRY
    place = folder / "transport"
    own_folder(place)
    largest = min(most + FRAMING, LARGEST)
    options: list[list[Any]] = [
        ["grpc.max_send_message_length", LARGEST],
        ["grpc.max_receive_message_length", largest],
        ["grpc.so_reuseport", 0],
        ["grpc.keepalive_time_ms", 20_000],
        ["grpc.keepalive_timeout_ms", 60_000],
        ["grpc.keepalive_permit_without_calls", 1],
        ["grpc.http2.max_pings_without_data", 0],
        ["grpc.http2.min_ping_interval_without_data_ms", 10_000],
    ]
    settings = {"grpc": {"options": options}}
    write_file(place / "comm_config.json", json.dumps(settings, indent=1).encode())
    ConfigService.reset()
    CommConfigurator.reset()
    ConfigService.initialize(section_files={}, config_path=[str(place)])
    log = logging.getLogger("nvflare")
    log.propagate = False
    log.setLevel(logging.WARNING)
    for handler in list(log.handlers):
        log.removeHandler(handler)
        handler.close()
    handler = logging.FileHandler(folder / "transport.log", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.addHandler(handler)
