"""A mask drawn over its photo, with a legend of the classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
OPACITY = 0.5
"""Share of the class colour in a pixel."""
MARGIN = 6
LEAST_WIDTH = 320
"""Width of the legend of a narrow photo, in pixels."""


def overlay(
    photo: Bytes,
    ids: Bytes,
    colours: Bytes,
    shares: Mapping[str, float],
    names: Sequence[str],
) -> Bytes:
    """The photo ``(h, w, 3)`` blended with the colours of ``ids``, above a legend.

    The legend has the classes that occur, the largest share first.
    """
    blended = (1 - OPACITY) * photo + OPACITY * colours[ids]
    top = np.where((ids == 255)[..., None], photo, blended.round()).astype(np.uint8)
    width = max(photo.shape[1], LEAST_WIDTH)
    legend = _legend(width, [(colours[names.index(n)], n, s) for n, s in shares.items()])
    top = np.pad(top, ((0, 0), (0, width - top.shape[1]), (0, 0)), constant_values=255)
    return np.concatenate([top, legend])


def _legend(width: int, entries: Sequence[tuple[Any, str, float]]) -> Bytes:
    """Squares in the colours of the classes, with names and shares, in as many lines as needed."""
    from PIL import Image, ImageDraw, ImageFont

    size = min(max(width // 50, 12), 40)
    font = ImageFont.load_default(size)
    texts = [f"{name} {100 * share:.1f} %" for _, name, share in entries]
    places, x, line = [], MARGIN, 0
    for text in texts:
        room = size + MARGIN + int(font.getlength(text)) + 3 * MARGIN
        if x > MARGIN and x + room > width:
            x, line = MARGIN, line + 1
        places.append((x, MARGIN + line * (size + 2 * MARGIN)))
        x += room
    height = MARGIN + (line + 1) * (size + 2 * MARGIN)
    picture = Image.new("RGB", (width, height), "white")
    pen = ImageDraw.Draw(picture)
    for (colour, _, _), text, (x, y) in zip(entries, texts, places, strict=True):
        pen.rectangle((x, y, x + size, y + size), fill=tuple(map(int, colour)), outline="black")
        pen.text((x + size + MARGIN, y + size / 2), text, fill="black", font=font, anchor="lm")
    return np.array(picture)
