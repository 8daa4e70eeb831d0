"""Signed messages: who sent it, to whom, what kind it is, and its content; the form of replies.

    "fedflat signed 1\\n" | length of the signature, 2 | signature | length of the head, 4 | head |
    body

The head is JSON. The signature is over the head and the SHA-256 digest of the body, by the sender's
key. A receiver knows the certificates of those whose messages it reads, and reads nothing of
others.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from torch import Tensor

from fedflat.client.training import ClientJob
from fedflat.core.json_schema import check
from fedflat.core.messages import WEIGHT, Broadcast, Reply
from fedflat.execution.wire_format import WireError
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


Form = dict[str, tuple[tuple[int, ...], str]]
"""Shape and type of each tensor, by name."""


@dataclass
class ReplyForm:
    """Checks replies of one run.

    The update must have the form of the model. Tensors of pieces must have the form of those that
    the first client sent for the same instruction, so that they can be averaged. Descriptions must
    have the same names and numbers of axes.
    """

    weighs: bool
    """Whether clients weigh their replies themselves, as by labelled pixels."""
    sends: frozenset[str]
    """Keys of the pieces that send tensors beside the update when a client trains."""
    vectors: int
    """How many of these tensors have the size of the model."""
    first: dict[str, tuple[str, Form]] = field(default_factory=dict)
    """By instruction: the first client, and the form of the tensors of its pieces."""

    @classmethod
    def of(cls, job: ClientJob) -> ReplyForm:
        sends = {
            piece.key for piece in job.pieces if piece.upload_vectors or piece.uploads_statistics
        }
        vectors = sum(piece.upload_vectors for piece in job.pieces)
        return cls(job.learner.task.weighs, frozenset(sends), vectors)

    def check(self, reply: Reply, broadcast: Broadcast, client: str) -> None:
        """Raise `WireError` if a reply has another form than it must have."""
        if broadcast.instruction.upload_vectors:
            self._check_update(reply, broadcast)
        if broadcast.instruction.trains:
            self._check_pieces(reply)
        averaged = broadcast.instruction.upload_vectors > 0
        found = {
            f"{key}/{name}": _form(tensor if averaged else tensor[(slice(0),) * tensor.ndim])
            for key, named in reply.extras.items()
            for name, tensor in named.items()
        }
        if WEIGHT in reply.metrics:
            found[WEIGHT] = (), "number"
        first, form = self.first.setdefault(repr(broadcast.instruction), (client, found))
        if found != form:
            raise WireError(
                f"a reply has {_described(found)} beside the update, and the first one, of {first}, "
                f"had {_described(form)}. Use the same version on both sides."
            )

    def _check_pieces(self, reply: Reply) -> None:
        missing = self.sends - reply.extras.keys()
        if missing or reply.models <= self.vectors:
            raise WireError(
                f"a reply lacks tensors of {', '.join(sorted(missing or self.sends))}. Use the "
                "same version on both sides."
            )

    def _check_update(self, reply: Reply, broadcast: Broadcast) -> None:
        for what, found, sent in (
            ("update", reply.delta, broadcast.params),
            ("running statistics", reply.buffers, broadcast.buffers),
        ):
            if _form(found) != _form(sent):
                raise WireError(
                    f"a reply does not fit the model: its {what} have the form {_form(found)}, and "
                    f"the model's is {_form(sent)}. Use the same model on both sides."
                )
        if reply.steps < 1 or reply.samples < 0:
            raise WireError(
                f"a reply says that it took {reply.steps:,} steps with {reply.samples:,} examples. "
                "Use the same version on both sides."
            )
        if "loss" not in reply.metrics:
            raise WireError("a reply has no training loss. Use the same version on both sides.")
        weight = reply.metrics.get(WEIGHT)
        if weight is not None and not (self.weighs and 0 <= weight < math.inf):
            raise WireError(
                f"a reply weighs itself as {weight:g}, which it cannot. Use the same version on "
                "both sides."
            )


def _form(tensor: Tensor) -> tuple[tuple[int, ...], str]:
    return tuple(tensor.shape), str(tensor.dtype)


def _described(form: Form) -> str:
    names = ", ".join(f"{name[:40]} {list(shape)}" for name, (shape, _) in list(form.items())[:4])
    return names or "nothing"
