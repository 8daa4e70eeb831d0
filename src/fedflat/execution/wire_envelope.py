"""The layout of a message: JSON and tensors under a digest.

    "fedflat message 3\\n" | digest of the rest, 16 bytes | length of the text, 4 | text | tensors

The text is JSON. The tensors are safetensors with numbers for names, by which the text refers to
them. Numbers, dtypes and shapes come out as they went in; JSON has no NaN and no infinity, which
are written as strings. The digest notices damage, not malice. It is also the id of the message:
equal bytes have equal ids.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from fedflat.core.flat import Model
from fedflat.core.messages import Extras
from fedflat.files import Damaged, digest, pack, parse_json

MAGIC = b"fedflat message 3\n"
SIGN, LENGTH = 16, 4
"""Bytes of the digest, and of the length of the text."""
MOST, MOST_TEXT = 2**33, 2**28
"""Bytes of the largest message that is read, and of its text."""


def seal(text: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
    """Return the message with this text and these tensors."""
    packed = json.dumps(text, allow_nan=False).encode()
    rest = len(packed).to_bytes(LENGTH, "little") + packed + pack(tensors)
    return MAGIC + digest(rest) + rest


def message_id(content: bytes) -> str:
    """The id of a message: its digest in hexadecimal digits."""
    return content[len(MAGIC) : len(MAGIC) + SIGN].hex()


def unseal(content: bytes, most: int = MOST) -> tuple[Any, dict[str, Tensor]]:
    """Return the text and the tensors of a message; `Damaged` if it has none.

    Args:
        content: The bytes.
        most: The largest number of bytes that is read.
    """
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
        raise Damaged(f"its text cannot have {length:,} bytes")
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
        raise Damaged(f"its tensors cannot be read ({error})") from None


class TensorWriter:
    """Tensors of a message, by number."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def put(self, tensor: Tensor) -> int:
        """Add a tensor; return its number."""
        number = len(self.tensors)
        self.tensors[str(number)] = tensor.detach().cpu()
        return number

    def all(self, extras: Extras) -> dict[str, dict[str, int]]:
        """Add all tensors; return their numbers."""
        return {
            key: {name: self.put(t) for name, t in named.items()} for key, named in extras.items()
        }

    def model(self, model: Model | None) -> list[int] | None:
        """Add a model; return the numbers of its parameters and of its buffers."""
        return None if model is None else [self.put(model.params), self.put(model.buffers)]


class TensorReader:
    """Tensors of a message; each is taken once."""

    def __init__(self, tensors: dict[str, Tensor], device: str) -> None:
        self.tensors, self.device = tensors, device

    def take(self, number: int) -> Tensor:
        """The tensor with a number."""
        if str(number) not in self.tensors:
            raise Damaged(f"its tensor {number} is not there, or is used twice")
        return self.tensors.pop(str(number)).to(self.device)

    def all(self, numbers: dict[str, dict[str, int]]) -> dict[str, dict[str, Tensor]]:
        """The tensors with these numbers."""
        return {
            key: {name: self.take(n) for name, n in named.items()} for key, named in numbers.items()
        }

    def model(self, numbers: list[int] | None) -> Model | None:
        """The model whose parameters and buffers have these numbers."""
        if numbers is not None and len(numbers) != 2:
            raise Damaged(f"a model has parameters and buffers, found {len(numbers)} tensors")
        return None if numbers is None else Model(self.take(numbers[0]), self.take(numbers[1]))

    def finish(self) -> None:
        """Refuse tensors that were not taken."""
        if self.tensors:
            raise Damaged("it has tensors that it does not use")
