"""The clients as a topology sees them: their number, sizes, selection and groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from fedflat.client.instructions import Describer, Descriptions
from fedflat.core.flat import Layout
from fedflat.core.seeds import numpy_generator
from fedflat.errors import SettingError, shown
from fedflat.server.client_selection import Chain, ClientSampler
from fedflat.topologies.groupings.client_vectors import representers
from fedflat.topologies.groupings.dissimilarity import Vectors
from fedflat.topologies.groupings.grouping import Grouping

T = TypeVar("T")


def no_columns(name: str) -> Sequence[str]:
    """Raise `SettingError`: these data have no columns."""
    raise SettingError(f"these data have no column {name!r}. Group clients by something else.")


@dataclass(frozen=True)
class ClientPopulation:
    """The clients as a topology sees them: their number, sizes, selection and groups.

    sampler
        Selects the clients of a round.
    rounds
        Number of rounds of the run.
    seed
        The seed of the run.
    layout
        Names and shapes of the model's parameters.
    """

    n_clients: int
    """Number of clients."""
    sizes: Callable[[], Sequence[int]]
    """Returns the number of training examples of each client. It may raise `SettingError` where
    clients are made on demand."""
    sampler: ClientSampler
    rounds: int
    seed: int
    layout: Layout
    keeps_to_end: Callable[[int, int], float] = lambda client, t: 1.0
    """Returns the simulated seconds that a client's work takes in a round; 1 if the run has no
    clock."""
    column: Callable[[str], Sequence[str]] = no_columns
    """Returns the value of a column of the data, such as a town, of each client. It may raise
    `SettingError`."""
    classes: int | None = None
    """Number of classes, or None if examples have none."""
    descriptions: Descriptions = field(default_factory=dict)
    """Descriptions of all clients, by describer."""
    timed: bool = False
    """True if the run has a simulated clock."""
    online: Callable[[int], Sequence[int] | None] = lambda t: None
    """Returns the clients that can be asked in a round, in ascending order; None if all can."""
    _groups: dict[str, tuple[Chain, ...]] = field(default_factory=dict, repr=False, compare=False)
    _sequences: dict[str, tuple[Iterator[Any], list[Any]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _vectors: dict[Describer, Vectors] = field(default_factory=dict, repr=False, compare=False)

    def with_descriptions(self, descriptions: Descriptions) -> ClientPopulation:
        """Return the same population with descriptions of the clients."""
        return replace(self, descriptions=descriptions, _groups={}, _sequences={}, _vectors={})

    def descriptions_by(self, describer: Describer) -> Sequence[Tensor]:
        """Return what a describer computed for each client.

        The topology must declare the describer.
        """
        if describer not in self.descriptions:
            raise SettingError(
                f"clients have not computed {describer}. They do when a run begins, for the "
                "describers that its topology declares."
            )
        return self.descriptions[describer]

    def draw(self, t: int) -> list[int]:
        """Return the cohort of round ``t``, selected from all clients that are online."""
        online = self.online(t)
        if online is None or len(online) == self.n_clients or self.sampler.cohorts is not None:
            return self.draw_from(t, self.n_clients, self.sizes)
        sampler = replace(self.sampler, clients=min(self.sampler.clients, len(online)))
        sizes = self.sizes
        drawn = sampler.draw(t, len(online), self.seed, lambda: [sizes()[one] for one in online])
        return [online[place] for place in drawn]

    def draw_from(
        self, t: int, count: int, sizes: Callable[[], Sequence[int]], place: int = 0
    ) -> list[int]:
        """Select from ``count`` items.

        Draws of one round with different ``place`` are independent.
        """
        return self.sampler.draw(t, count, self.seed, sizes, place)

    def rng(self, purpose: str, *path: int) -> np.random.Generator:
        """Return a random generator for a topology, from the run's seed."""
        return numpy_generator(self.seed, f"topology/{purpose}", *path)

    def sequence(self, name: str, generate: Callable[[], Iterator[T]], t: int) -> T:
        """Return item ``t`` of a generated sequence, cached.

        ``generate`` is called once per ``name``.
        """
        if name not in self._sequences:
            self._sequences[name] = generate(), []
        generator, items = self._sequences[name]
        while len(items) <= t:
            items.append(next(generator))
        item: T = items[t]
        return item

    def groups(self, grouping: Grouping, *path: int) -> tuple[Chain, ...]:
        """Return all clients in groups, cached and checked.

        Another ``path`` gives other random numbers.
        """
        key = f"{grouping} {path}"
        if key not in self._groups:
            self._groups[key] = self._make_groups(grouping, *path)
        return self._groups[key]

    def _representers(self, describer: Describer) -> Vectors:
        if describer not in self._vectors:
            self._vectors[describer] = representers(describer, self.descriptions_by(describer))
        return self._vectors[describer]

    def _make_groups(self, grouping: Grouping, *path: int) -> tuple[Chain, ...]:
        parts = [self._representers(one) for one in grouping.describers]
        if grouping.needs_column is not None:
            values = self.column(grouping.needs_column)
            parts.append(np.unique(values, return_inverse=True)[1].astype(np.float64)[:, None])
        vectors = np.concatenate(parts, axis=1) if parts else np.zeros((self.n_clients, 0))
        assigned = grouping.assign(
            vectors, self.sizes(), self.rng("groups", *path), classes=self.classes
        )
        found = tuple(map(tuple, assigned))
        if not all(found) or sorted(client for group in found for client in group) != list(
            range(self.n_clients)
        ):
            raise SettingError(
                f"{grouping} must put each of the {self.n_clients} clients into one group and "
                f"leave no group empty, found {shown(found)}."
            )
        return found
