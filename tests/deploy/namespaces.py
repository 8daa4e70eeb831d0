"""Network namespaces for the processes of a federation: one for each client, and a bridge.

Each client has a network device of its own, so that a client's cable can be pulled, and where the
kernel has ``netem``, packets are late and some are lost. Needs root and iproute2.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

BRIDGE = "fedflat0"
SERVER = "10.77.0.1"
NETEM = ("netem", "delay", "20ms", "5ms", "loss", "1%")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Namespaces:
    """A namespace for each client: `inside` is put before a client's command."""

    def __init__(self, clients: Sequence[str]) -> None:
        self.clients = list(clients)
        self.netem = False
        """Whether packets are late and lost."""

    def make(self) -> None:
        """Make the bridge and the namespaces."""
        _ip("link", "add", BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{SERVER}/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        for place, name in enumerate(self.clients):
            space = self._space(name)
            _ip("netns", "add", space)
            _ip("link", "add", f"ff{place}", "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", f"ff{place}", "master", BRIDGE, "up")
            for words in (
                ("addr", "add", f"10.77.0.{place + 10}/24", "dev", "eth0"),
                ("link", "set", "eth0", "up"),
                ("link", "set", "lo", "up"),
            ):
                _ip("-n", space, *words)
            tc = ["tc", "-n", space, "qdisc", "add", "dev", "eth0", "root", *NETEM]
            self.netem = subprocess.run(tc, capture_output=True, check=False).returncode == 0

    def remove(self) -> None:
        """Remove all of it."""
        for name in self.clients:
            with suppress(OSError, subprocess.CalledProcessError):
                _ip("netns", "del", self._space(name))
        with suppress(OSError, subprocess.CalledProcessError):
            _ip("link", "del", BRIDGE)

    def inside(self, client: str) -> list[str]:
        """What runs a command in the namespace of a client."""
        return ["ip", "netns", "exec", self._space(client)] if client in self.clients else []

    def pull_cable(self, client: str) -> None:
        """Disconnect a client's device without any message."""
        _ip("link", "set", f"ff{self.clients.index(client)}", "down")

    def plug_in(self, client: str) -> None:
        """Connect it again."""
        _ip("link", "set", f"ff{self.clients.index(client)}", "up")

    def _space(self, name: str) -> str:
        return f"fedflat-{os.getpid()}-{name}"


@contextmanager
def namespaces(clients: Sequence[str]) -> Iterator[Namespaces | None]:
    """A namespace for each client while the block runs; None where that is not allowed."""
    made = Namespaces(clients)
    try:
        try:
            made.make()
        except (OSError, subprocess.CalledProcessError):
            made.remove()
            yield None
            return
        yield made
    finally:
        made.remove()
