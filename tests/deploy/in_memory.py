"""A transport within one process: the server's end, and a client's end for each name."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedflat.deploy.federation_folder import (
    Participant,
    make_federation,
    open_federation_folder,
    read_participant,
)
from fedflat.deploy.node import Node, NodeSettings
from fedflat.deploy.session import Session
from fedflat.experiments.experiment import data_set


class Network:
    """Queues in place of connections."""

    def __init__(self) -> None:
        self.up: queue.Queue[bytes] = queue.Queue()
        self.down: dict[str, queue.Queue[bytes]] = {}

    def online(self) -> frozenset[str]:
        return frozenset(self.down)

    def push(self, client: str, content: bytes) -> bool:
        if client not in self.down:
            return False
        self.down[client].put(content)
        return True

    def pull(self, timeout: float) -> Sequence[bytes]:
        found = []
        try:
            found.append(self.up.get(timeout=timeout))
            while True:
                found.append(self.up.get_nowait())
        except queue.Empty:
            return found

    def reopen(self) -> None:
        """Nothing is lost here."""

    def close(self) -> None:
        self.down.clear()


class End:
    """A client's end."""

    def __init__(self, network: Network, name: str) -> None:
        self.network, self.name = network, name
        self.inbox = network.down[name] = queue.Queue()

    def connected(self) -> bool:
        return self.network.down.get(self.name) is self.inbox

    def send(self, content: bytes) -> bool:
        if self.connected():
            self.network.up.put(content)
        return self.connected()

    def receive(self, timeout: float) -> bytes | None:
        try:
            return self.inbox.get(timeout=timeout)
        except queue.Empty:
            return None

    def close(self) -> None:
        if self.connected():
            del self.network.down[self.name]


class Client:
    """A node in a thread; ``error`` is what it ended with."""

    def __init__(self, node: Node) -> None:
        self.node, self.error = node, None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.node.run()
        except Exception as error:
            self.error: Any = error

    def join(self) -> None:
        self.thread.join(60)
        assert not self.thread.is_alive()


class Federation:
    """A federation in one process, whose transport is a `Network`."""

    def __init__(self, at: Path, clients: Sequence[str]) -> None:
        self.at, self.network = at, Network()
        self.folder = make_federation(at / "fed", "127.0.0.1", 8443, clients, days=2, tls=True)
        self.lines: list[str] = []
        self.clients: list[Client] = []

    def session(self, run: str = "r", seed: int = 0) -> Session:
        """The server's session."""
        folder = open_federation_folder(self.folder.path)
        return Session(folder, self.network, run=run, seed=seed, print_line=self.lines.append)

    def participant(self, name: str) -> Participant:
        return read_participant(self.folder.path / "participants" / f"{name}.join")

    def join(
        self, name: str, data: str, part: int | None = None, kind: Callable[..., Node] = Node
    ) -> Client:
        """Start a client in a thread."""
        settings = NodeSettings(data_set(data), part, self.at / name, wait=60.0)
        node = kind(
            self.participant(name),
            settings,
            lambda participant, settings: End(self.network, participant.client),
            self.lines.append,
        )
        self.clients.append(Client(node))
        return self.clients[-1]

    def until(self, session: Session, done: Callable[[], bool]) -> None:
        """Let the server work until something holds."""
        for _ in range(600):
            if done():
                return
            session.pump(0.1)
        raise AssertionError(self.lines)
