"""What a server knows of its clients before they answer: who exists, and how much data each has.

A simulation makes the registry from the federation. The data of clients are opened only where
clients run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fedflat.data.domains import Domain


def _no_domains() -> Mapping[Domain, Sequence[int]]:
    return {}


def _everyone(round: int) -> Sequence[int] | None:
    return None


def _no_column(name: str) -> Sequence[str]:
    raise KeyError(name)


@dataclass(frozen=True)
class ClientRegistry:
    """Clients by number, and what is known of them."""

    population: int
    """Number of clients."""
    size: Callable[[int], int]
    """Number of training examples of a client."""
    sizes: Callable[[], Sequence[int]]
    """The same of all clients, in order; raises `SettingError` if there are too many to count."""
    clients_have_tests: bool = False
    """Whether each client keeps a part of its data for tests."""
    clients_by_domain: Callable[[], Mapping[Domain, Sequence[int]]] = _no_domains
    """The clients of each domain; empty if no domain is known."""
    column: Callable[[str], Sequence[str]] = _no_column
    """The value of each client in a named column, such as its city."""
    online: Callable[[int], Sequence[int] | None] = _everyone
    """The clients that can be asked in a round, in ascending order; None if all can."""

    @property
    def clients(self) -> range:
        """All clients."""
        return range(self.population)
