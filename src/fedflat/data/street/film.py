"""The images of one vehicle along its route: images, masks, positions and headings.

Route, traffic, light and noise have their own generators. So the same journey in other weather has
the same route, traffic and masks.
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
"""Metres between the origins of successive towns, to the east."""
PIXELS = 1 << 15
"""Approximate number of pixels that are rendered at once, to save NumPy calls."""


@dataclass(frozen=True)
class Film:
    """Bytes (frames, 3, rows, columns), classes (frames, rows, columns), and positions.

    ``places`` has a row for each frame: metres east, metres north, degrees clockwise from north.
    All towns are in one plane, `APART` from each other.
    """

    images: NDArray[np.uint8]
    masks: NDArray[np.uint8]
    places: NDArray[np.float64]
    journey: Journey


@dataclass(frozen=True)
class Journey:
    """One vehicle's route through a town, in one weather, with one camera."""

    seed: int
    number: int
    """Distinguishes journeys with the same seed."""
    town: int
    weather: str = "sun"
    view: str = "car"
    style: str = "real"
    width: int = 128
    rows: int = 64
    traffic: float = 1.0
    """Amount of cars and people, relative to the default."""

    def film(self, frames: int) -> Film:
        """The first images along the route."""
        return self.at(self.way(frames))

    def way(self, frames: int) -> NDArray[np.float64]:
        """Positions of the first images: metres east and north within the town, and heading."""
        return drive(
            town(self.town, self.seed),
            numpy_generator(self.seed, "street/way", self.number),
            frames,
        )

    def at(self, way: NDArray[np.float64]) -> Film:
        """Images at these positions, given as by `way`."""
        place, view = town(self.town, self.seed), VIEWS[self.view]
        generator = numpy_generator(self.seed, "street/light", self.number)
        light, lens = (
            Light.sample(WEATHERS[self.weather], generator),
            Lens.sample(self.style, generator),
        )
        images, masks = [], []
        at_once = max(1, PIXELS // (self.width * self.rows))
        for first in range(0, len(way), at_once):
            frames = range(first, min(first + at_once, len(way)))
            traffic_rngs, noise = (
                [numpy_generator(self.seed, purpose, self.number, frame) for frame in frames]
                for purpose in ("street/traffic", "street/noise")
            )
            cameras = [
                camera(way[i], view, rng, self.width, self.rows)
                for i, rng in zip(frames, traffic_rngs, strict=True)
            ]
            traffic = meet(place, cameras, traffic_rngs, self.traffic)
            rendered = pictures(place, cameras, traffic, light, lens, noise, view.bonnet)
            images.append(rendered[0])
            masks.append(rendered[1])
        places = way + np.array([self.town * APART, 0.0, 0.0])
        return Film(np.concatenate(images), np.concatenate(masks), places, self)
