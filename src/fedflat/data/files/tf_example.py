"""Reader of texts in a serialized ``tf.train.Example``, without TensorFlow.

The wire format of protocol buffers: a field is a number with its index and type, then its value;
type 2 is a length and so many bytes. ``Example {1: Features {1: entry {1: name, 2: Feature {1:
BytesList {1: bytes}}}}}``.
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5


def text_of(example: bytes, name: str) -> str:
    """The text under ``name``; a `ValueError` if there is none or the bytes are not an Example."""
    for features in _values(example, 1):
        for entry in _values(features, 1):
            if b"".join(_values(entry, 1)) == name.encode():
                lists = [texts for feature in _values(entry, 2) for texts in _values(feature, 1)]
                values = [value for texts in lists for value in _values(texts, 1)]
                if len(values) == 1:
                    return values[0].decode("utf-8")
    raise ValueError(f"no text {name!r}")


def _values(message: bytes, place: int) -> Iterator[bytes]:
    """The values of type 2 with this index in a message."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == VARINT:
            _, at = _varint(message, at)
        elif kind in (EIGHT, FOUR):
            at += 8 if kind == EIGHT else 4
        elif kind == BYTES:
            length, at = _varint(message, at)
            if at + length > len(message):
                raise ValueError("a field goes on beyond the end")
            if key >> 3 == place:
                yield message[at : at + length]
            at += length
        else:
            raise ValueError(f"a field of unknown type {kind}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, lowest first, and the position after it."""
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise ValueError("a number is cut off")
        number |= (message[at] & 127) << shift
        at += 1
        if message[at - 1] < 128:
            return number, at
    raise ValueError("a number is too long")
