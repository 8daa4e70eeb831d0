"""Domains of examples, such as town, weather and camera.

A domain has a value for each facet, such as ``("T01", "CN", "A")`` for town, weather and vehicle. A
client has a domain if all its examples share one. Test sets distinguish domains that were trained
on from others.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

Domain = tuple[str, ...]
"""A value for each facet; empty if unknown or not unique."""


@dataclass(frozen=True)
class Domains:
    facets: tuple[str, ...]
    """Names of the facets, such as town, weather and vehicle."""
    each: tuple[Domain, ...]
    look: int = 0
    """The number of facets, from the first, that determine the look of an image; 0 means all."""

    @classmethod
    def alike(cls, facets: tuple[str, ...], domain: Domain, count: int, look: int = 0) -> Domains:
        """``count`` examples of one domain."""
        return cls(facets, (domain,) * count, look)

    def of(self, places: Iterable[int]) -> Self:
        return replace(self, each=tuple(self.each[place] for place in places))

    def __add__(self, more: Domains) -> Self:
        return replace(self, each=self.each + more.each)

    @property
    def only(self) -> Domain:
        """The domain that all examples share; empty if there are several."""
        distinct = set(self.each)
        return distinct.pop() if len(distinct) == 1 else ()

    @property
    def looks(self) -> list[int]:
        """A number per example that is equal for examples of the same look.

        It does not depend on the machine, and has 24 bits, so that a float can hold it.
        """
        return [
            zlib.crc32("/".join(domain[: self.look or None]).encode()) >> 8 for domain in self.each
        ]

    def groups(self) -> dict[str, list[int]]:
        """Positions of the examples of each facet value that not all examples have."""
        positions: dict[str, list[int]] = {}
        for facet in range(len(self.facets)):
            values = sorted({domain[facet] for domain in self.each})
            for value in values if len(values) > 1 else ():
                positions[value] = [
                    place for place, domain in enumerate(self.each) if domain[facet] == value
                ]
        return positions

    def finest(self) -> dict[Domain, list[int]]:
        """Positions of the examples of each domain."""
        positions: dict[Domain, list[int]] = {domain: [] for domain in sorted(set(self.each))}
        for place, domain in enumerate(self.each):
            positions[domain].append(place)
        return positions
