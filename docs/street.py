"""Draws docs/street.png: towns from top to bottom, weather from left to right, and what each pixel
is at the end.

python docs/street.py [FILE]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from fedflat.data.figures import palette
from fedflat.data.street.film import Journey
from fedflat.data.street.frame import CLASSES

WIDTH, HEIGHT, EDGE = 176, 88, 3
WEATHER = ("sun", "rain", "dusk", "night", "snow")
SHOWN = ((0, 5, 2), (1, 5, 2), (2, 1, 2), (3, 2, 2), (5, 1, 4))
"""Which towns, which journeys, which of their pictures."""


def main(path: Path) -> None:
    """Write the picture."""
    colours = palette(CLASSES, len(CLASSES))
    sheet = np.full(
        (len(SHOWN) * (HEIGHT + EDGE) - EDGE, (len(WEATHER) + 1) * (WIDTH + EDGE) - EDGE, 3),
        255,
        np.uint8,
    )
    for row, (town, number, frame) in enumerate(SHOWN):
        films = [
            Journey(0, number, town, weather, width=WIDTH, rows=HEIGHT).film(frame + 1)
            for weather in WEATHER
        ]
        cells = [film.images[-1].transpose(1, 2, 0) for film in films] + [
            colours[films[0].masks[-1]]
        ]
        for column, cell in enumerate(cells):
            top, left = row * (HEIGHT + EDGE), column * (WIDTH + EDGE)
            sheet[top : top + HEIGHT, left : left + WIDTH] = cell
    Image.fromarray(sheet).quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("street.png"))
