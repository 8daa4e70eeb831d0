"""What one vehicle takes along its way: images, masks, positions and headings.

Way, traffic, light and noise have generators of their own. So a journey in other weather goes the
same way, meets the same cars and has the same masks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedflat.core.seeds import numpy_generator
from fedflat.data.street.lens import Lens
from fedflat.data.street.scene import pictures
from fedflat.data.street.town import town
from fedflat.data.street.traffic import VIEWS, camera, drive, meet
from fedflat.data.street.weather import WEATHERS, Light

APART = 100_000.0
"""Metres from the origin of one town to that of the next, to the east."""
PIXELS = 1 << 15
"""About so many are drawn at once: numpy has to be called less often than for one picture after the
other."""


@dataclass(frozen=True)
class Film:
    """Bytes (frames, 3, rows, columns), classes (frames, rows, columns), and where each was taken.

    ``places`` has a row for each frame: metres east, metres north, degrees clockwise from north.
    All towns lie in one plane, `APART` from each other.
    """

    images: NDArray[np.uint8]
    masks: NDArray[np.uint8]
    places: NDArray[np.float64]
    journey: Journey


@dataclass(frozen=True)
class Journey:
    """One vehicle's way through a town, in one weather, with one camera."""

    seed: int
    number: int
    """Tells journeys with the same seed apart."""
    town: int
    weather: str = "sun"
    view: str = "car"
    style: str = "real"
    width: int = 128
    rows: int = 64
    traffic: float = 1.0
    """How many cars and people there are, as a share of what is usual."""

    def film(self, frames: int) -> Film:
        """The first pictures along the way."""
        return self.at(self.way(frames))

    def way(self, frames: int) -> NDArray[np.float64]:
        """Where its first pictures are taken: metres east and north in the town's own frame,
        heading."""
        return drive(
            town(self.town, self.seed),
            numpy_generator(self.seed, "street/way", self.number),
            frames,
        )

    def at(self, way: NDArray[np.float64]) -> Film:
        """Pictures at these places, as `way` has them."""
        place, view = town(self.town, self.seed), VIEWS[self.view]
        drawn = numpy_generator(self.seed, "street/light", self.number)
        light, lens = Light.drawn(WEATHERS[self.weather], drawn), Lens.drawn(self.style, drawn)
        images, masks = [], []
        at_once = max(1, PIXELS // (self.width * self.rows))
        for first in range(0, len(way), at_once):
            frames = range(first, min(first + at_once, len(way)))
            met, noise = (
                [numpy_generator(self.seed, purpose, self.number, frame) for frame in frames]
                for purpose in ("street/traffic", "street/noise")
            )
            cameras = [
                camera(way[i], view, rng, self.width, self.rows)
                for i, rng in zip(frames, met, strict=True)
            ]
            traffic = meet(place, cameras, met, self.traffic)
            taken = pictures(place, cameras, traffic, light, lens, noise, view.bonnet)
            images.append(taken[0])
            masks.append(taken[1])
        places = way + np.array([self.town * APART, 0.0, 0.0])
        return Film(np.concatenate(images), np.concatenate(masks), places, self)
