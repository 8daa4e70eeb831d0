"""What goes between a server and its clients as bytes: texts and tensors, never code.

    message   "fedflat message 1\\n" | digest of the rest (16 bytes) | length of the texts (4 bytes) | texts | tensors

The texts are JSON, the tensors safetensors with numbers for names, by which the texts refer to
them. Numbers, dtypes and shapes come out as they went in; JSON has no NaN and no infinity, which
are written as texts. What a letter asks is a text of our language, and an order (what all visits of
a run have in common) is the texts of run.json.

The digest notices damage, not malice: whatever a message says has the kinds and the bounds that are
written here, or it is refused. Whether tensors fit a model is for those to see who use them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from fedflat.client.piece import ClientState
from fedflat.client.training import Request
from fedflat.core.failures import REASONS, ClientFailure
from fedflat.core.flat import Model
from fedflat.core.json_schema import Schema, check
from fedflat.core.messages import Broadcast, Extras, Reply
from fedflat.errors import FedflatError
from fedflat.files import Damaged, digest, pack, parse_json
from fedflat.registry.specs import parse

MAGIC = b"fedflat message 1\n"
SIGN, LENGTH = 16, 4
"""Bytes of the digest, and of the length of the texts."""
MOST, MOST_TEXT = 2**33, 2**28
"""Bytes of the largest message that is read, and of its texts."""


class WireError(FedflatError):
    """Bytes that are no message, or a damaged one, or one that says what cannot be."""


@dataclass(frozen=True)
class JobSpec:
    """What all visits of a run have in common, in texts, and what clients are told before round
    0."""

    settings: Mapping[str, Any]
    shared: Extras = field(default_factory=dict)


@dataclass(frozen=True)
class ClientReply:
    """What came of a visit."""

    reply: Reply
    state: ClientState
    """What the client remembers from now on, where the server keeps that for it."""


Message = JobSpec | Request | ClientReply | ClientFailure


def encode(message: Message) -> bytes:
    """The bytes of a message."""
    writer = _Writer()
    if isinstance(message, JobSpec):
        texts: dict[str, Any] = {
            "kind": "order",
            "texts": dict(message.settings),
            "told": writer.all(message.shared),
        }
    elif isinstance(message, ClientFailure):
        texts = {
            "kind": "missing",
            "client": message.client,
            "letter": message.request,
            "reason": message.reason,
            "why": message.detail,
        }
    else:
        texts = (
            _letter(message, writer) if isinstance(message, Request) else _answer(message, writer)
        )
    said = json.dumps(texts, allow_nan=False).encode()
    rest = len(said).to_bytes(LENGTH, "little") + said + pack(writer.tensors)
    return MAGIC + digest(rest) + rest


def decode(
    content: bytes, *, model: Model | None = None, device: str = "cpu", most: int = MOST
) -> Message:
    """The message that bytes say, its tensors on ``device``; `WireError` if they say none.

    ``model`` is the one that the client was sent last, which a letter may repeat without sending it
    again. Of more than ``most`` bytes none is looked at.
    """
    try:
        texts, tensors = _opened(content, most)
        check(texts, {"kind": set(_SCHEMAS), "*": object})
        check(texts, _SCHEMAS[texts["kind"]])
        reader = _Reader(tensors, device)
        if texts["kind"] == "order":
            message: Message = JobSpec(texts["texts"], reader.all(texts.get("told", {})))
        elif texts["kind"] == "missing":
            message = ClientFailure(*(texts[name] for name in _MISSING))
        elif texts["kind"] == "letter":
            message = _read_letter(texts, reader, model)
        else:
            message = _read_answer(texts, reader)
        reader.finish()
    except Damaged as error:
        raise WireError(f"a message cannot be read: {error}. Have it sent again.") from None
    return message


def _opened(content: bytes, most: int) -> tuple[Any, dict[str, Tensor]]:
    head = len(MAGIC) + SIGN
    if len(content) > most:
        raise Damaged(f"it has {len(content):,} bytes, and at most {most:,} are read")
    if content[: len(MAGIC)] != MAGIC:
        raise Damaged("it is no message of this version of fedflat")
    rest = content[head:]
    if content[len(MAGIC) : head] != digest(rest):
        raise Damaged("bytes of it are missing or have changed on the way")
    length = int.from_bytes(rest[:LENGTH], "little")
    if length > min(MOST_TEXT, len(rest) - LENGTH):
        raise Damaged(f"its texts cannot have {length:,} bytes")
    try:
        return parse_json(rest[LENGTH : LENGTH + length]), load(rest[LENGTH + length :])
    except (
        SafetensorError,
        ValueError,
        RuntimeError,
        KeyError,
        TypeError,
        OverflowError,
        MemoryError,
    ) as error:
        raise Damaged(f"its tensors are none ({error})") from None


class _Writer:
    """Tensors of a message, by number."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def put(self, tensor: Tensor) -> int:
        number = len(self.tensors)
        self.tensors[str(number)] = tensor.detach().cpu()
        return number

    def all(self, extras: Extras) -> dict[str, dict[str, int]]:
        return {
            key: {name: self.put(t) for name, t in named.items()} for key, named in extras.items()
        }

    def model(self, model: Model | None) -> list[int] | None:
        return None if model is None else [self.put(model.params), self.put(model.buffers)]


class _Reader:
    """Tensors of a message; each is taken once."""

    def __init__(self, tensors: dict[str, Tensor], device: str) -> None:
        self.tensors, self.device = tensors, device

    def take(self, number: int) -> Tensor:
        if str(number) not in self.tensors:
            raise Damaged(f"its tensor {number} is not there, or is used twice")
        return self.tensors.pop(str(number)).to(self.device)

    def all(self, numbers: dict[str, dict[str, int]]) -> dict[str, dict[str, Tensor]]:
        return {
            key: {name: self.take(n) for name, n in named.items()} for key, named in numbers.items()
        }

    def model(self, numbers: list[int] | None) -> Model | None:
        if numbers is not None and len(numbers) != 2:
            raise Damaged(f"a model has parameters and buffers, found {len(numbers)} tensors")
        return None if numbers is None else Model(self.take(numbers[0]), self.take(numbers[1]))

    def finish(self) -> None:
        if self.tensors:
            raise Damaged("it has tensors that it does not use")


_NUMBER = (float, {"nan", "inf", "-inf"})
_MISSING = {"client": int, "letter": str, "reason": set(REASONS), "why": str}
_EXTRAS = {"*": {"*": int}}
_SCHEMAS: dict[str, Schema] = {
    "order": {"kind": str, "texts": {"*": object}, "told?": _EXTRAS},
    "missing": {"kind": str, **_MISSING},
    "letter": {
        "kind": str,
        "id": str,
        "client": int,
        "round": int,
        "lr": _NUMBER,
        "commit": bool,
        "ask": str,
        "visit": int,
        "model": ([int], None),
        "before": ([_NUMBER], None),
        "extras": _EXTRAS,
        "memory": _EXTRAS,
    },
    "answer": {
        "kind": str,
        "letter": str,
        "client": int,
        "delta": int,
        "buffers": int,
        "examples": int,
        "samples": int,
        "steps": int,
        "metrics": {"*": _NUMBER},
        "own": ([int], None),
        "extras": _EXTRAS,
        "memory": _EXTRAS,
    },
}


def _letter(request: Request, writer: _Writer) -> dict[str, Any]:
    broadcast, client = request.broadcast, request.client
    model = Model(broadcast.params, broadcast.buffers)
    if not broadcast.instruction.needs_model:
        model = Model(broadcast.params.new_empty(0), broadcast.buffers.new_empty(0))
    return {
        "kind": "letter",
        "id": request.id,
        "client": client,
        "round": broadcast.round,
        "lr": _number(broadcast.lr),
        "ask": repr(broadcast.instruction),
        "commit": broadcast.commit,
        "visit": broadcast.repetition,
        "model": None if broadcast.repeat else writer.model(model),
        "before": [_number(told) for told in broadcast.preceding[client]]
        if broadcast.preceding
        else None,
        "extras": writer.all(broadcast.extras),
        "memory": writer.all(request.state),
    }


def _read_letter(texts: dict[str, Any], reader: _Reader, known: Model | None) -> Request:
    sent, client, before = reader.model(texts["model"]), texts["client"], texts["before"]
    model = known if sent is None else sent
    if model is None:
        raise Damaged("it repeats a model that was not sent before")
    if before is not None and (len(before) != 2 or not isinstance(before[0], int)):
        raise Damaged(
            f"how many clients were asked before and what they do must be two numbers, found {before}"
        )
    try:
        ask = parse(texts["ask"], "ask")
    except FedflatError as error:
        raise Damaged(f"what it asks cannot be read: {str(error).rstrip('.')}") from None
    broadcast = Broadcast(
        round=texts["round"],
        params=model.params,
        buffers=model.buffers,
        lr=float(texts["lr"]),
        extras=reader.all(texts["extras"]),
        instruction=ask,
        commit=texts["commit"],
        repeat=sent is None,
        preceding={} if before is None else {client: (before[0], float(before[1]))},
        repetition=texts["visit"],
    )
    return Request(client, broadcast, reader.all(texts["memory"]), texts["id"])


def _answer(answer: ClientReply, writer: _Writer) -> dict[str, Any]:
    reply = answer.reply
    return {
        "kind": "answer",
        "letter": reply.request,
        "client": reply.client,
        "delta": writer.put(reply.delta),
        "buffers": writer.put(reply.buffers),
        "examples": reply.examples,
        "samples": reply.samples,
        "steps": reply.steps,
        "metrics": {name: _number(value) for name, value in reply.metrics.items()},
        "own": writer.model(reply.client_params),
        "extras": writer.all(reply.extras),
        "memory": writer.all(answer.state),
    }


def _read_answer(texts: dict[str, Any], reader: _Reader) -> ClientReply:
    reply = Reply(
        client=texts["client"],
        delta=reader.take(texts["delta"]),
        buffers=reader.take(texts["buffers"]),
        examples=texts["examples"],
        samples=texts["samples"],
        extras=reader.all(texts["extras"]),
        metrics={name: float(value) for name, value in texts["metrics"].items()},
        steps=texts["steps"],
        client_params=reader.model(texts["own"]),
        request=texts["letter"],
    )
    return ClientReply(reply, reader.all(texts["memory"]))


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(float(value))
