"""Messages between a server and its clients as bytes: text and tensors, never code.

======================= ==============================================================
`JobSpec`               once a run: what all requests have in common
`Broadcast`             once an exchange: model, learning rate, instruction, shared extras
`RequestMessage`        to one client: names its broadcast and its state by id
`ClientReply`           from one client
`ClientFailure`         from one client that has no reply
======================= ==============================================================

`fedflat.execution.wire_envelope` has the layout of the bytes. A message has the types and the
bounds that are written here, or it is refused. Whether tensors fit a model is checked where they
are used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from fedflat.client.piece import ClientState
from fedflat.client.training import Request
from fedflat.core.codecs import CODECS, Packed, unpack
from fedflat.core.failures import REASONS, ClientFailure
from fedflat.core.flat import Model
from fedflat.core.json_schema import Schema, check
from fedflat.core.messages import Broadcast, Extras, Reply
from fedflat.errors import FedflatError
from fedflat.execution.wire_envelope import (
    MOST,
    TensorReader,
    TensorWriter,
    seal,
    unseal,
)
from fedflat.files import Damaged
from fedflat.registry.specs import parse


class WireError(FedflatError):
    """Bytes that are no message, or a damaged one, or one with impossible content."""


@dataclass(frozen=True)
class JobSpec:
    """What all requests of a run have in common, as text, and what clients get before round 0."""

    settings: Mapping[str, Any]
    shared: Extras = field(default_factory=dict)
    sample: tuple[Tensor, ...] = ()
    """Zeros with the shapes and dtypes of two examples, from which clients build their module."""


@dataclass(frozen=True)
class RequestMessage:
    """A request that names its broadcast by id."""

    id: str
    client: int
    broadcast: str
    """The id of the broadcast (`message_id`)."""
    preceding: tuple[int, float] | None = None
    """What `Broadcast.preceding` has for this client, if it has anything."""
    state: ClientState = field(default_factory=dict)
    """The client's state, where the server keeps it."""
    state_id: str | None = None
    """The id of the request that made the client's state, where the client keeps it."""
    keep: tuple[str, ...] = ()
    """The ids of all states that the client must keep."""

    @classmethod
    def of(cls, request: Request, broadcast: str) -> RequestMessage:
        """The message for a request whose broadcast has the id ``broadcast``."""
        return cls(
            request.id,
            request.client,
            broadcast,
            request.broadcast.preceding.get(request.client),
            request.state,
            request.state_id,
            request.keep,
        )

    def request(self, broadcast: Broadcast) -> Request:
        """The request, with the broadcast that it names."""
        if self.preceding is not None:
            broadcast = replace(broadcast, preceding={self.client: self.preceding})
        return Request(self.client, broadcast, self.state, self.id, self.state_id, self.keep)


@dataclass(frozen=True)
class ClientReply:
    """The outcome of a request."""

    reply: Reply
    state: ClientState = field(default_factory=dict)
    """The client's new state, where the server keeps it."""
    kept: bool = False
    """Whether the client keeps a new state under the id of the request."""


Message = JobSpec | Broadcast | RequestMessage | ClientReply | ClientFailure


def encode(message: Message, *, model_of: str | None = None) -> bytes:
    """Return the bytes of a message.

    Args:
        message: What to encode.
        model_of: For a broadcast: the id of an earlier one that the receiver still has and whose
            model is the same; the model is not encoded again.
    """
    writer = TensorWriter()
    if isinstance(message, JobSpec):
        text: dict[str, Any] = {
            "kind": "job",
            "settings": dict(message.settings),
            "shared": writer.all(message.shared),
            "sample": [writer.put(tensor) for tensor in message.sample],
        }
    elif isinstance(message, ClientFailure):
        text = {"kind": "failure", **{name: getattr(message, name) for name in _FAILURE}}
    elif isinstance(message, Broadcast):
        text = _broadcast(message, writer, model_of)
    elif isinstance(message, RequestMessage):
        text = _request(message, writer)
    else:
        text = _reply(message, writer)
    return seal(text, writer.tensors)


def decode(
    content: bytes,
    *,
    models: Mapping[str, Model] | None = None,
    device: str = "cpu",
    most: int = MOST,
) -> Message:
    """Return the message that bytes hold, its tensors on ``device``; `WireError` if they hold none.

    Args:
        content: The bytes.
        models: The models of earlier broadcasts by their ids, to which a broadcast may refer.
        device: Where to put the tensors.
        most: The largest number of bytes that is read.
    """
    try:
        text, tensors = unseal(content, most)
        check(text, {"kind": set(_SCHEMAS), "*": object})
        check(text, _SCHEMAS[text["kind"]])
        reader = TensorReader(tensors, device)
        if text["kind"] == "job":
            sample = tuple(reader.take(number) for number in text["sample"])
            message: Message = JobSpec(text["settings"], reader.all(text["shared"]), sample)
        elif text["kind"] == "failure":
            message = ClientFailure(*(text[name] for name in _FAILURE))
        elif text["kind"] == "broadcast":
            message = _read_broadcast(text, reader, models or {})
        elif text["kind"] == "request":
            message = _read_request(text, reader)
        else:
            message = _read_reply(text, reader)
        reader.finish()
    except Damaged as error:
        raise WireError(f"a message cannot be read: {error}. Have it sent again.") from None
    return message


_NUMBER = (float, {"nan", "inf", "-inf"})
_FAILURE = {"client": int, "request": str, "reason": set(REASONS), "detail": str}
_EXTRAS = {"*": {"*": int}}
_SCHEMAS: dict[str, Schema] = {
    "job": {"kind": str, "settings": {"*": object}, "shared": _EXTRAS, "sample": [int]},
    "failure": {"kind": str, **_FAILURE},
    "broadcast": {
        "kind": str,
        "round": int,
        "lr": _NUMBER,
        "instruction": str,
        "commit": bool,
        "repetition": int,
        "model": ([int], None),
        "model_of": (str, None),
        "extras": _EXTRAS,
    },
    "request": {
        "kind": str,
        "id": str,
        "client": int,
        "broadcast": str,
        "preceding": ([_NUMBER], None),
        "state": _EXTRAS,
        "state_id": (str, None),
        "keep": [str],
    },
    "reply": {
        "kind": str,
        "request": str,
        "client": int,
        "delta": (int, None),
        "packed": ({"codec": set(CODECS), "tensors": {"*": int}}, None),
        "buffers": int,
        "examples": int,
        "samples": int,
        "steps": int,
        "metrics": {"*": _NUMBER},
        "client_params": ([int], None),
        "extras": _EXTRAS,
        "state": _EXTRAS,
        "kept": bool,
    },
}


def _broadcast(broadcast: Broadcast, writer: TensorWriter, model_of: str | None) -> dict[str, Any]:
    model = Model(broadcast.params, broadcast.buffers)
    if not broadcast.instruction.needs_model:
        model = Model(broadcast.params.new_empty(0), broadcast.buffers.new_empty(0))
    return {
        "kind": "broadcast",
        "round": broadcast.round,
        "lr": _number(broadcast.lr),
        "instruction": repr(broadcast.instruction),
        "commit": broadcast.commit,
        "repetition": broadcast.repetition,
        "model": writer.model(model) if model_of is None else None,
        "model_of": model_of,
        "extras": writer.all(broadcast.extras),
    }


def _read_broadcast(
    text: dict[str, Any], reader: TensorReader, models: Mapping[str, Model]
) -> Broadcast:
    sent, model_of = reader.model(text["model"]), text["model_of"]
    if (sent is None) == (model_of is None):
        raise Damaged("it must have a model or the id of a broadcast that has it")
    model = models.get(model_of) if sent is None else sent
    if model is None:
        raise Damaged(f"it refers to the model of the broadcast {model_of!r}, which is not here")
    try:
        instruction = parse(text["instruction"], "instruction")
    except FedflatError as error:
        raise Damaged(f"its instruction cannot be read: {str(error).rstrip('.')}") from None
    return Broadcast(
        round=text["round"],
        params=model.params,
        buffers=model.buffers,
        lr=float(text["lr"]),
        extras=reader.all(text["extras"]),
        instruction=instruction,
        commit=text["commit"],
        repeat=sent is None,
        repetition=text["repetition"],
    )


def _request(message: RequestMessage, writer: TensorWriter) -> dict[str, Any]:
    before = message.preceding
    return {
        "kind": "request",
        "id": message.id,
        "client": message.client,
        "broadcast": message.broadcast,
        "preceding": None if before is None else [_number(value) for value in before],
        "state": writer.all(message.state),
        "state_id": message.state_id,
        "keep": list(message.keep),
    }


def _read_request(text: dict[str, Any], reader: TensorReader) -> RequestMessage:
    before = text["preceding"]
    if before is not None and (len(before) != 2 or not isinstance(before[0], int)):
        raise Damaged(
            "the number of preceding clients and the sum of their mean batches must be two numbers,"
            f" found {before}"
        )
    return RequestMessage(
        id=text["id"],
        client=text["client"],
        broadcast=text["broadcast"],
        preceding=None if before is None else (before[0], float(before[1])),
        state=reader.all(text["state"]),
        state_id=text["state_id"],
        keep=tuple(text["keep"]),
    )


def _reply(answer: ClientReply, writer: TensorWriter) -> dict[str, Any]:
    reply = answer.reply
    packed = reply.packed
    return {
        "kind": "reply",
        "request": reply.request,
        "client": reply.client,
        "delta": writer.put(reply.delta) if packed is None else None,
        "packed": None
        if packed is None
        else {
            "codec": packed.codec,
            "tensors": {name: writer.put(t) for name, t in packed.tensors.items()},
        },
        "buffers": writer.put(reply.buffers),
        "examples": reply.examples,
        "samples": reply.samples,
        "steps": reply.steps,
        "metrics": {name: _number(value) for name, value in reply.metrics.items()},
        "client_params": writer.model(reply.client_params),
        "extras": writer.all(reply.extras),
        "state": writer.all(answer.state),
        "kept": answer.kept,
    }


def _read_reply(text: dict[str, Any], reader: TensorReader) -> ClientReply:
    found = text["packed"]
    if (found is None) == (text["delta"] is None):
        raise Damaged("it must have an update or a compressed one")
    packed = found and Packed(
        found["codec"], {name: reader.take(n) for name, n in found["tensors"].items()}
    )
    reply = Reply(
        client=text["client"],
        delta=unpack(packed) if packed else reader.take(text["delta"]),
        buffers=reader.take(text["buffers"]),
        examples=text["examples"],
        samples=text["samples"],
        extras=reader.all(text["extras"]),
        metrics={name: float(value) for name, value in text["metrics"].items()},
        steps=text["steps"],
        client_params=reader.model(text["client_params"]),
        request=text["request"],
        packed=packed,
    )
    return ClientReply(reply, reader.all(text["state"]), text["kept"])


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(float(value))
