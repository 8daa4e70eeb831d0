"""What a deployment needs of a network: bytes to clients by name, and bytes back."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Protocol

from fedflat.errors import SettingError

LARGEST = 2**31 - 4 * 2**20
"""Bytes of the largest message that a transport carries."""


class Transport(Protocol):
    """The server's end. It knows no model: messages are bytes, signed and read elsewhere."""

    def online(self) -> frozenset[str]:
        """The names of the clients that are connected."""
        ...

    def push(self, client: str, content: bytes) -> bool:
        """Send bytes to a client; do not wait for an answer. False if it is not connected."""
        ...

    def pull(self, timeout: float) -> Sequence[bytes]:
        """Wait up to ``timeout`` seconds; return what clients have sent, in the order it came."""
        ...

    def reopen(self) -> None:
        """Open the transport again after it was lost; clients connect again."""
        ...

    def close(self) -> None:
        """Disconnect from all clients."""
        ...


class Link(Protocol):
    """A client's end."""

    def connected(self) -> bool:
        """Whether the server is there."""
        ...

    def send(self, content: bytes) -> bool:
        """Send bytes to the server. False if it is not there."""
        ...

    def receive(self, timeout: float) -> bytes | None:
        """The next message of the server; None if none came within ``timeout`` seconds."""
        ...

    def close(self) -> None: ...


PACKAGES = ("nvflare", "cryptography", "grpc")


def missing_packages() -> list[str]:
    return [name for name in PACKAGES if find_spec(name) is None]


def require_extra() -> None:
    """Refuse to go on without the packages of the extra."""
    missing = missing_packages()
    if missing:
        raise SettingError(
            f"deploy: {' and '.join(missing)} must be installed for it. Install the extra: "
            "pip install 'fedflat[deploy]'."
        )
