"""A PNG writer without Pillow: grey or palette ``(h, w)``, or colour ``(h, w, 3)``, 8 bits."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, COLOURS, PLACES = 0, 2, 3
"""Colour types of the format: grey, colour, palette."""


def png(pixels: NDArray[np.uint8], palette: NDArray[np.uint8] | None = None) -> bytes:
    """The content of a PNG file; with a palette ``(n, 3)`` pixels are indices into it.

    >>> png(np.zeros((1, 1), np.uint8))[:8] == SIGNATURE
    True
    """
    kind = COLOURS if pixels.ndim == 3 else GREY if palette is None else PLACES
    height, width = pixels.shape[:2]
    lines = pixels.reshape(height, -1)
    plain = np.concatenate(
        [np.zeros((height, 1), np.uint8), lines], 1
    ).tobytes()  # filter type 0: no prediction
    parts = [_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))]
    if palette is not None:
        parts.append(_chunk(b"PLTE", palette.tobytes()))
    parts += [_chunk(b"IDAT", zlib.compress(plain, 9)), _chunk(b"IEND", b"")]
    return SIGNATURE + b"".join(parts)


def _chunk(name: bytes, content: bytes) -> bytes:
    return (
        struct.pack(">I", len(content))
        + name
        + content
        + struct.pack(">I", zlib.crc32(name + content))
    )
