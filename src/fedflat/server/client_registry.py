"""Who there is, apart from what they hold: all that a server knows of clients before they answer.

In a simulation it is made from the federation; what clients hold is opened by those who visit them
only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedflat.data.federation import Federation


@dataclass(frozen=True)
class ClientRegistry:
    """Clients by number, and what is known of them."""

    population: int
    size: Callable[[int], int]
    """How many examples a client trains on."""
    sizes: Callable[[], Sequence[int]]
    """The same of all clients, in their order; counting may be refused where there are many."""
    clients_have_tests: bool = False
    """Whether each client keeps a part of its own data for testing."""

    @classmethod
    def of(cls, fed: Federation) -> ClientRegistry:
        """Those in a federation."""
        return cls(fed.population, fed.size, fed.sizes, fed.held_out is not None)

    @property
    def clients(self) -> range:
        """All of them."""
        return range(self.population)
