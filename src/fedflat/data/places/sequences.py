"""Sequences of images: the unit that is assigned to clients in place recognition.

A sequence is one drive: images of one city and one role (query or database), in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedflat.data.places.targets import DATABASE, QUERY

Metres = NDArray[np.float64]


@dataclass(frozen=True)
class ImageSequence:
    """One drive through a city, as query or as database."""

    city: str
    role: int
    name: str
    images: tuple[int, ...]
    """Positions of its images in the list of all images, in the order of the drive."""
    where: Metres
    """Metres east and north of each image."""

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class Validity:
    """When a client can take part: at least two query and two database sequences.

    ``images``: two query images suffice instead of two query sequences.
    """

    images: bool = False

    def __call__(self, sequences: Sequence[ImageSequence]) -> bool:
        """True if a client with these sequences is valid."""
        queries = [one for one in sequences if one.role == QUERY]
        database = sum(one.role == DATABASE for one in sequences)
        count = sum(map(len, queries)) if self.images else len(queries)
        return count >= 2 and database >= 2


def by_city(sequences: Sequence[ImageSequence]) -> dict[str, list[int]]:
    """Positions of the sequences of each city, cities by name."""
    cities = sorted({one.city for one in sequences})
    return {city: [i for i, one in enumerate(sequences) if one.city == city] for city in cities}
