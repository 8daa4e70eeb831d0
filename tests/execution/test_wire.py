"""Messages in the wire format are decoded as they were encoded, or refused."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedflat.client.training import Request
from fedflat.core.failures import REASONS, ClientFailure
from fedflat.core.flat import Model
from fedflat.core.messages import Broadcast, Extras, Reply
from fedflat.execution.wire_envelope import LENGTH, MAGIC, SIGN, message_id
from fedflat.execution.wire_format import (
    ClientReply,
    JobSpec,
    Message,
    RequestMessage,
    WireError,
    decode,
    encode,
)
from fedflat.files import digest, pack
from fedflat.registry.specs import parse

NUMBERS = st.floats(allow_nan=True, allow_infinity=True)
WHOLE = st.integers(0, 2**62)
NAMES = st.text(max_size=8)
DTYPES = st.sampled_from(
    [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
)


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """Any bits, in any order in memory."""
    shape, dtype = draw(st.lists(st.integers(0, 3), max_size=3)), draw(DTYPES)
    if dtype is torch.bool:
        made = torch.zeros(shape, dtype=torch.uint8).random_(0, 2, generator=_rng(draw)).bool()
    else:
        count = math.prod(shape) * dtype.itemsize
        made = (
            torch.empty(count, dtype=torch.uint8)
            .random_(0, 256, generator=_rng(draw))
            .view(dtype)
            .reshape(shape)
        )
    return made.transpose(0, -1) if made.dim() > 1 and draw(st.booleans()) else made


def _rng(draw: st.DrawFn) -> torch.Generator:
    return torch.Generator().manual_seed(draw(st.integers(0, 2**32)))


EXTRAS = st.dictionaries(NAMES, st.dictionaries(NAMES, tensors(), max_size=2), max_size=2)
BROADCASTS = st.builds(
    Broadcast, WHOLE, tensors(), tensors(), NUMBERS, EXTRAS, commit=st.booleans(), repetition=WHOLE
)
REQUESTS = st.builds(
    RequestMessage,
    NAMES,
    WHOLE,
    NAMES,
    st.none() | st.tuples(st.integers(0, 9), NUMBERS),
    EXTRAS,
    st.none() | NAMES,
    st.lists(NAMES, max_size=3).map(tuple),
)
REPLIES = st.builds(
    Reply,
    WHOLE,
    tensors(),
    tensors(),
    WHOLE,
    WHOLE,
    EXTRAS,
    st.dictionaries(NAMES, NUMBERS, max_size=3),
    WHOLE,
    st.none() | st.builds(Model, tensors(), tensors()),
    NAMES,
)
ANSWERS = st.builds(ClientReply, REPLIES, EXTRAS, st.booleans())


def bits(value: Any) -> Any:
    """All of a message as something that is equal only if every bit is; NaN is one number."""
    if isinstance(value, Tensor):
        raw = (
            value.contiguous().reshape(-1).view(torch.uint8) if value.numel() else value.reshape(-1)
        )
        return value.dtype, tuple(value.shape), bytes(raw.tolist()) if value.numel() else b""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value.hex()
    if isinstance(value, Mapping):
        return [(key, bits(inner)) for key, inner in value.items()]
    if isinstance(value, tuple):
        return [bits(inner) for inner in value]
    return (
        [(name, bits(inner)) for name, inner in vars(value).items()]
        if hasattr(value, "__dict__")
        else value
    )


MISSING = st.builds(ClientFailure, WHOLE, NAMES, st.sampled_from(REASONS), st.text())


@settings(max_examples=25)
@given(BROADCASTS | REQUESTS | ANSWERS | MISSING)
def test_what_is_sent_arrives_bit_for_bit(message: Message) -> None:
    assert bits(decode(encode(message))) == bits(message)


def small_broadcast(**more: Any) -> Broadcast:
    return Broadcast(
        3, torch.arange(100.0), torch.tensor([0.5]), 0.1, {"sam": {"eps": torch.ones(2)}}, **more
    )


def small_request() -> RequestMessage:
    state = {"dual": {"y": torch.zeros(2)}}
    return RequestMessage("3/0/7", 7, "ab", (1, 2.5), state, "2/0/7", ("1/0/7",))


def small_answer() -> ClientReply:
    return ClientReply(
        Reply(7, torch.ones(3), torch.zeros(0), 5, 10, {}, {"loss": math.nan}, request="3/0/7"), {}
    )


@settings(max_examples=60)
@given(
    st.data(),
    st.sampled_from(
        [small_broadcast(), small_request(), small_answer(), JobSpec({"method": "fedavg()"})]
    ),
)
def test_any_damage_is_noticed(data: st.DataObject, message: Message) -> None:
    whole = encode(message)
    place = data.draw(st.integers(0, len(whole) - 1))
    flipped = (
        whole[:place]
        + bytes([whole[place] ^ (1 << data.draw(st.integers(0, 7)))])
        + whole[place + 1 :]
    )
    for wrong in (flipped, whole[:place], whole[place:] if place else b"", whole + whole[-1:]):
        with pytest.raises(
            WireError, match=r"^a message cannot be read: .*\. Have it sent again\.$"
        ):
            decode(wrong)


def sealed(texts: Any, tensors: bytes | dict[str, Tensor]) -> bytes:
    """A message with any content, under a digest that is right."""
    output = texts if isinstance(texts, bytes) else json.dumps(texts).encode()
    rest = (
        len(output).to_bytes(LENGTH, "little")
        + output
        + (tensors if isinstance(tensors, bytes) else pack(tensors))
    )
    return MAGIC + digest(rest) + rest


def taken_apart(message: bytes) -> tuple[dict[str, Any], bytes]:
    rest = message[len(MAGIC) + SIGN :]
    length = int.from_bytes(rest[:LENGTH], "little")
    return json.loads(rest[LENGTH : LENGTH + length]), rest[LENGTH + length :]


@settings(max_examples=60)
@given(st.data())
def test_malice_under_a_right_digest_is_refused_or_read(data: st.DataObject) -> None:
    """Any byte of texts and tensors may have been changed by somebody who can make a digest: no
    other error comes."""
    texts, tensors = taken_apart(
        encode(data.draw(st.sampled_from([small_broadcast(), small_request(), small_answer()])))
    )
    output = json.dumps(texts).encode()
    both = output + tensors
    place = data.draw(st.integers(0, len(both) - 1))
    both = (
        both[:place]
        + data.draw(st.binary(max_size=3))
        + both[place + data.draw(st.integers(0, 3)) :]
    )
    cut = data.draw(st.integers(0, len(both)) | st.just(len(output)))
    with suppress(WireError):
        decode(sealed(both[:cut], both[cut:]))


ONE = {"0": torch.ones(1)}
JOB: dict[str, Any] = {"kind": "job", "settings": {}, "shared": {}, "sample": []}
BROADCAST, OF_BROADCAST = taken_apart(encode(small_broadcast()))
REQUEST, OF_REQUEST = taken_apart(encode(small_request()))
ANSWER, OF_ANSWER = taken_apart(encode(small_answer()))


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"", "no message of this version"),
        (MAGIC, "missing or have changed"),
        (sealed(b"[" * 100_000, ONE), "nested too deeply|tensors"),
        (sealed({"kind": "gift"}, {}), "kind must be"),
        (sealed([], {}), "it must be an object"),
        (sealed(JOB | {"settings": 3}, {}), "settings must be an object"),
        (sealed(JOB, ONE), "tensors that it does not use"),
        (sealed(JOB, b"\xff" * 40), "its tensors cannot be read"),
        (MAGIC + digest(b"\xff" * 9) + b"\xff" * 9, "its text cannot have"),
        (sealed(REQUEST | {"client": 2**80}, OF_REQUEST), "client must be a whole number"),
        (sealed(REQUEST | {"client": 1.0}, OF_REQUEST), "client must be a whole number"),
        (sealed(REQUEST | {"preceding": [1.5, 2]}, OF_REQUEST), "must be two numbers"),
        (sealed(REQUEST | {"keep": "all"}, OF_REQUEST), "keep must be"),
        (sealed(REQUEST | {"state_id": 3}, OF_REQUEST), "state_id must be"),
        (sealed(REQUEST | {"more": 1}, OF_REQUEST), "not known"),
        (sealed(BROADCAST | {"lr": "fast"}, OF_BROADCAST), "lr must be"),
        (sealed(BROADCAST | {"model": [0]}, OF_BROADCAST), "parameters and buffers"),
        (sealed(BROADCAST | {"model": [0, 0]}, OF_BROADCAST), "is not there, or is used twice"),
        (sealed(BROADCAST | {"model": None}, OF_BROADCAST), "must have a model or the id"),
        (
            sealed(BROADCAST | {"model": None, "model_of": "ab"}, OF_BROADCAST),
            "refers to the model of the broadcast 'ab', which is not here",
        ),
        (sealed(BROADCAST | {"instruction": "__import__('os')"}, OF_BROADCAST), "instruction"),
        (sealed(ANSWER | {"delta": 17}, OF_ANSWER), "is not there"),
        (sealed(ANSWER | {"delta": -1}, OF_ANSWER), "is not there"),
        (sealed(ANSWER | {"metrics": {"loss": None}}, OF_ANSWER), "metrics.loss must be"),
    ],
)
def test_what_no_message_says(message: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        decode(message)


def test_too_much_is_not_looked_at() -> None:
    message = encode(small_broadcast())
    assert decode(message, most=len(message))
    with pytest.raises(
        WireError,
        match=re.escape(f"it has {len(message)} bytes, and at most {len(message) - 1} are"),
    ):
        decode(message, most=len(message) - 1)


def test_a_model_is_not_sent_twice() -> None:
    first = small_broadcast()
    whole = encode(first)
    again = encode(first, model_of=message_id(whole))
    assert len(again) < len(whole) - 400 < len(whole)  # 100 numbers of four bytes
    model = Model(first.params, first.buffers)
    got = decode(again, models={message_id(whole): model})
    assert isinstance(got, Broadcast)
    assert got.repeat
    assert got.params is model.params
    assert got.buffers is model.buffers


def test_equal_broadcasts_have_equal_ids() -> None:
    one, same, other = (encode(small_broadcast(**more)) for more in ({}, {}, {"repetition": 1}))
    assert message_id(one) == message_id(same) != message_id(other)


def test_a_model_that_is_not_needed_is_not_sent() -> None:
    broadcast = small_broadcast(instruction=parse("describe(label_counts())", "instruction"))
    got = decode(encode(broadcast))
    assert isinstance(got, Broadcast)
    assert got.instruction == broadcast.instruction
    assert len(got.params) == len(got.buffers) == 0
    assert got.params.dtype == broadcast.params.dtype


def test_a_client_gets_its_own_place_only() -> None:
    broadcast = small_broadcast(preceding={5: (0, 0.0), 7: (1, 3.5), 9: (2, 7.0)})
    sent = decode(encode(broadcast))
    assert isinstance(sent, Broadcast)
    assert not sent.preceding
    message = decode(encode(RequestMessage.of(Request(7, broadcast, {}, "3/0/7"), "ab")))
    assert isinstance(message, RequestMessage)
    assert message.request(sent).broadcast.preceding == {7: (1, 3.5)}


def test_a_request_is_made_again_from_its_messages() -> None:
    request = Request(
        7, small_broadcast(), {"dual": {"y": torch.ones(1)}}, "3/0/7", "2/0/7", ("x",)
    )
    content = encode(request.broadcast)
    sent, message = (
        decode(content),
        decode(encode(RequestMessage.of(request, message_id(content)))),
    )
    assert isinstance(sent, Broadcast)
    assert isinstance(message, RequestMessage)
    assert message.broadcast == message_id(content)
    assert bits(message.request(sent)) == bits(request)


def test_tensors_are_named_by_numbers_only() -> None:
    """Names of pieces are text: nothing in them reaches the file of tensors."""
    extras: Extras = {"a/b": {"__metadata__": torch.ones(1), "": torch.zeros(2)}, "": {}}
    got = decode(encode(replace(small_broadcast(), extras=extras)))
    assert isinstance(got, Broadcast)
    assert bits(got.extras) == bits(extras)
