"""What goes between a server and its clients as bytes: texts and tensors, never code.

    message   "fedflat message 1\\n" | digest of the rest (16 bytes) | length of the texts (4 bytes) | texts | tensors

The texts are JSON, the tensors safetensors with numbers for names, by which the texts refer to them. Numbers, dtypes
and shapes come out as they went in; JSON has no NaN and no infinity, which are written as texts. What a letter asks is
a text of our language, and an order (what all visits of a run have in common) is the texts of run.json.

The digest notices damage, not malice: whatever a message says has the kinds and the bounds that are written here, or it
is refused. Whether tensors fit a model is for those to see who use them.
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

from fedflat.client.piece import Memory
from fedflat.client.visit import Letter
from fedflat.engine.flat import Model
from fedflat.engine.mail import Extras, Mail, Reply
from fedflat.engine.missing import REASONS, Missing
from fedflat.errors import FedflatError
from fedflat.files import Damaged, digest, pack, parse_json
from fedflat.folder.schema import Schema, check
from fedflat.language.spelling import parse

MAGIC = b"fedflat message 1\n"
SIGN, LENGTH = 16, 4
"""Bytes of the digest, and of the length of the texts."""
MOST, MOST_TEXT = 2**33, 2**28
"""Bytes of the largest message that is read, and of its texts."""


class Garbled(FedflatError):
    """Bytes that are no message, or a damaged one, or one that says what cannot be."""


@dataclass(frozen=True)
class Order:
    """What all visits of a run have in common, in texts, and what clients are told before round 0."""

    texts: Mapping[str, Any]
    told: Extras = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What came of a visit."""

    reply: Reply
    memory: Memory
    """What the client remembers from now on, where the server keeps that for it."""


Message = Order | Letter | Answer | Missing


def encode(message: Message) -> bytes:
    """The bytes of a message."""
    writer = _Writer()
    if isinstance(message, Order):
        texts: dict[str, Any] = {"kind": "order", "texts": dict(message.texts), "told": writer.all(message.told)}
    elif isinstance(message, Missing):
        texts = {"kind": "missing", **{name: getattr(message, name) for name in _MISSING}}
    else:
        texts = _letter(message, writer) if isinstance(message, Letter) else _answer(message, writer)
    said = json.dumps(texts, allow_nan=False).encode()
    rest = len(said).to_bytes(LENGTH, "little") + said + pack(writer.tensors)
    return MAGIC + digest(rest) + rest


def decode(content: bytes, *, model: Model | None = None, device: str = "cpu", most: int = MOST) -> Message:
    """The message that bytes say, its tensors on ``device``; `Garbled` if they say none.

    ``model`` is the one that the client was sent last, which a letter may repeat without sending it again. Of more than
    ``most`` bytes none is looked at.
    """
    try:
        texts, tensors = _opened(content, most)
        check(texts, {"kind": set(_SCHEMAS), "*": object})
        check(texts, _SCHEMAS[texts["kind"]])
        reader = _Reader(tensors, device)
        if texts["kind"] == "order":
            message: Message = Order(texts["texts"], reader.all(texts.get("told", {})))
        elif texts["kind"] == "missing":
            message = Missing(**{name: texts[name] for name in _MISSING})
        elif texts["kind"] == "letter":
            message = _read_letter(texts, reader, model)
        else:
            message = _read_answer(texts, reader)
        reader.finish()
    except Damaged as error:
        raise Garbled(f"a message cannot be read: {error}. Have it sent again.") from None
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
    except (SafetensorError, ValueError, RuntimeError, KeyError, TypeError, OverflowError, MemoryError) as error:
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
        return {key: {name: self.put(t) for name, t in named.items()} for key, named in extras.items()}

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
        return {key: {name: self.take(n) for name, n in named.items()} for key, named in numbers.items()}

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
        "kind": str, "id": str, "client": int, "round": int, "lr": _NUMBER, "commit": bool, "ask": str,
        "visit": int, "model": ([int], None), "before": ([_NUMBER], None), "extras": _EXTRAS, "memory": _EXTRAS,
    },
    "answer": {
        "kind": str, "letter": str, "client": int, "delta": int, "buffers": int, "examples": int, "samples": int,
        "steps": int, "metrics": {"*": _NUMBER}, "own": ([int], None), "extras": _EXTRAS, "memory": _EXTRAS,
    },
}  # fmt: skip


def _letter(letter: Letter, writer: _Writer) -> dict[str, Any]:
    mail, client = letter.mail, letter.client
    model = Model(mail.params, mail.buffers)
    if not mail.ask.needs_model:
        model = Model(mail.params.new_empty(0), mail.buffers.new_empty(0))
    return {
        "kind": "letter", "id": letter.id, "client": client, "round": mail.round, "lr": _number(mail.lr),
        "ask": repr(mail.ask), "commit": mail.commit, "visit": mail.visit,
        "model": None if mail.repeat else writer.model(model),
        "before": [_number(told) for told in mail.before[client]] if mail.before else None,
        "extras": writer.all(mail.extras), "memory": writer.all(letter.memory),
    }  # fmt: skip


def _read_letter(texts: dict[str, Any], reader: _Reader, known: Model | None) -> Letter:
    sent, client, before = reader.model(texts["model"]), texts["client"], texts["before"]
    model = known if sent is None else sent
    if model is None:
        raise Damaged("it repeats a model that was not sent before")
    if before is not None and (len(before) != 2 or not isinstance(before[0], int)):
        raise Damaged(f"how many clients were asked before and what they do must be two numbers, found {before}")
    try:
        ask = parse(texts["ask"], "ask")
    except FedflatError as error:
        raise Damaged(f"what it asks cannot be read: {str(error).rstrip('.')}") from None
    mail = Mail(
        round=texts["round"], params=model.params, buffers=model.buffers, lr=float(texts["lr"]),
        extras=reader.all(texts["extras"]), ask=ask, commit=texts["commit"], repeat=sent is None,
        before={} if before is None else {client: (before[0], float(before[1]))}, visit=texts["visit"],
    )  # fmt: skip
    return Letter(client, mail, reader.all(texts["memory"]), texts["id"])


def _answer(answer: Answer, writer: _Writer) -> dict[str, Any]:
    reply = answer.reply
    return {
        "kind": "answer", "letter": reply.letter, "client": reply.client, "delta": writer.put(reply.delta),
        "buffers": writer.put(reply.buffers), "examples": reply.examples, "samples": reply.samples,
        "steps": reply.steps, "metrics": {name: _number(value) for name, value in reply.metrics.items()},
        "own": writer.model(reply.own), "extras": writer.all(reply.extras), "memory": writer.all(answer.memory),
    }  # fmt: skip


def _read_answer(texts: dict[str, Any], reader: _Reader) -> Answer:
    reply = Reply(
        client=texts["client"], delta=reader.take(texts["delta"]), buffers=reader.take(texts["buffers"]),
        examples=texts["examples"], samples=texts["samples"], extras=reader.all(texts["extras"]),
        metrics={name: float(value) for name, value in texts["metrics"].items()}, steps=texts["steps"],
        own=reader.model(texts["own"]), letter=texts["letter"],
    )  # fmt: skip
    return Answer(reply, reader.all(texts["memory"]))


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(float(value))
