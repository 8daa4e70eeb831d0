"""Signed messages: who sent it, to whom, what kind it is, and its content.

    "fedflat signed 1\\n" | length of the signature, 2 | signature | length of the head, 4 | head |
    body

The head is JSON. The signature is over the head and the SHA-256 digest of the body, by the sender's
key. A receiver knows the certificates of those whose messages it reads, and reads nothing of
others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from fedflat.core.json_schema import check
from fedflat.files import Damaged, parse_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate

MAGIC = b"fedflat signed 1\n"
MOST_HEAD = 2**22
"""Most bytes of a head."""
SIGNED = 500
"""Most bytes by which a signed model is longer than the model."""
HEAD = {"from": str, "to": str, "kind": str, "session": str, "fields": {"*": object}}


class RejectedMessage(Exception):
    """A message that is not read: unsigned, of a stranger, for another, or too large."""

    def __init__(self, why: str, sender: str = "") -> None:
        super().__init__(why)
        self.sender = sender


@dataclass(frozen=True)
class SignedMessage:
    sender: str
    kind: str
    session: str
    """The session of the server that it belongs to; empty before a client knows it."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    body: bytes = b""


class Signer:
    """Writes messages of one sender."""

    def __init__(self, name: str, key: EllipticCurvePrivateKey) -> None:
        self.name, self.key = name, key
        self._last: tuple[bytes, bytes] = (b"", sha256(b"").digest())

    def seal(self, to: str, kind: str, session: str, body: bytes = b"", **fields: Any) -> bytes:
        """Return the bytes of a message."""
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.hashes import SHA256

        content = {"from": self.name, "to": to, "kind": kind, "session": session, "fields": fields}
        head = json.dumps(content, separators=(",", ":")).encode()
        signature = self.key.sign(MAGIC + head + self._digest(body), ECDSA(SHA256()))
        parts = (
            MAGIC,
            len(signature).to_bytes(2, "little"),
            signature,
            len(head).to_bytes(4, "little"),
            head,
            body,
        )
        return b"".join(parts)

    def _digest(self, body: bytes) -> bytes:
        """The digest of a body; that of the last one is kept, as many clients get the same."""
        if self._last[0] is not body:
            self._last = body, sha256(body).digest()
        return self._last[1]


class Reader:
    """Reads messages to one receiver.

    Args:
        name: The receiver.
        peers: The certificates of those whose messages it reads, by name.
        most: The largest number of bytes that is read.
    """

    def __init__(self, name: str, peers: Mapping[str, Certificate], most: int) -> None:
        self.name, self.peers, self.most = name, peers, most

    def open(self, content: bytes | bytearray | memoryview) -> SignedMessage:
        """Return the message that bytes hold; `RejectedMessage` if it is not to be read."""
        view = memoryview(content)
        if len(view) > self.most:
            raise RejectedMessage(f"it has {len(view):,} bytes, and at most {self.most:,} are read")
        if view[: len(MAGIC)] != MAGIC:
            raise RejectedMessage("it is no signed message of this version of fedflat")
        at = len(MAGIC)
        length = int.from_bytes(view[at : at + 2], "little")
        signature = bytes(view[at + 2 : at + 2 + length])
        at += 2 + length
        length = int.from_bytes(view[at : at + 4], "little")
        if length > min(MOST_HEAD, len(view) - at - 4):
            raise RejectedMessage("its head is cut off")
        head, body = bytes(view[at + 4 : at + 4 + length]), view[at + 4 + length :]
        try:
            text = parse_json(head)
            check(text, HEAD)
        except Damaged as error:
            raise RejectedMessage(f"its head cannot be read: {error}") from None
        self._verify(text, signature, MAGIC + head + sha256(body).digest())
        return SignedMessage(
            text["from"], text["kind"], text["session"], text["fields"], bytes(body)
        )

    def _verify(self, text: dict[str, Any], signature: bytes, signed: bytes) -> None:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
        from cryptography.hazmat.primitives.hashes import SHA256

        if text["to"] != self.name:
            raise RejectedMessage(f"it is for {text['to']!r}")
        peer = self.peers.get(text["from"])
        if peer is None:
            raise RejectedMessage(
                f"it is of {text['from'][:60]!r}, which is not registered", text["from"]
            )
        key = peer.public_key()
        assert isinstance(key, EllipticCurvePublicKey)
        try:
            key.verify(signature, signed, ECDSA(SHA256()))
        except InvalidSignature:
            raise RejectedMessage(f"it is not signed by {text['from']!r}") from None
