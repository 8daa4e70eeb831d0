"""Where examples are from: a town, a weather, a camera.

A domain is a value for each facet, such as ``("T01", "CN", "A")`` for town, weather and vehicle.
Clients whose examples are all of one domain are that domain's clients; tests tell apart what they
have seen and what not.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

Domain = tuple[str, ...]
"""A value for each facet; empty if it is not known, or not one."""


@dataclass(frozen=True)
class Domains:
    """The domain of each of some examples."""

    facets: tuple[str, ...]
    """What the values say, such as town, weather and vehicle."""
    each: tuple[Domain, ...]
    look: int = 0
    """How many of the facets, the first ones, say what a picture looks like; 0 for all of them."""

    @classmethod
    def alike(cls, facets: tuple[str, ...], domain: Domain, count: int, look: int = 0) -> Domains:
        """So many examples of one domain."""
        return cls(facets, (domain,) * count, look)

    def of(self, places: Iterable[int]) -> Self:
        """Those of the examples at ``places``."""
        return replace(self, each=tuple(self.each[place] for place in places))

    def __add__(self, more: Domains) -> Self:
        return replace(self, each=self.each + more.each)

    @property
    def only(self) -> Domain:
        """The one domain that all are of; empty if there are several."""
        found = set(self.each)
        return found.pop() if len(found) == 1 else ()

    @property
    def looks(self) -> list[int]:
        """A number for each example that is the same for all that look alike, wherever it is worked
        out.

        It has 24 bits, so that a float holds it.
        """
        return [
            zlib.crc32("/".join(domain[: self.look or None]).encode()) >> 8 for domain in self.each
        ]

    def groups(self) -> dict[str, list[int]]:
        """The examples of every value that tells some of them from others, by the facets' order and
        their own."""
        found: dict[str, list[int]] = {}
        for facet in range(len(self.facets)):
            values = sorted({domain[facet] for domain in self.each})
            for value in values if len(values) > 1 else ():
                found[value] = [
                    place for place, domain in enumerate(self.each) if domain[facet] == value
                ]
        return found

    def finest(self) -> dict[Domain, list[int]]:
        """The examples of every domain."""
        found: dict[Domain, list[int]] = {domain: [] for domain in sorted(set(self.each))}
        for place, domain in enumerate(self.each):
            found[domain].append(place)
        return found
