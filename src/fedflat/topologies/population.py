"""The clients as a topology sees them: how many, how large, who is drawn, and who is with whom."""

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
from fedflat.server.client_selection import ClientSampler
from fedflat.topologies.groupings.client_vectors import representers
from fedflat.topologies.groupings.dissimilarity import Vectors
from fedflat.topologies.groupings.grouping import Grouping

T = TypeVar("T")
Chain = tuple[int, ...]
"""Clients, in the order in which the model goes from one to the next."""


def no_columns(name: str) -> Sequence[str]:
    """Refuse to tell what is not known."""
    raise SettingError(
        f"nothing is known of the column {name!r}, since these data have none. Group clients otherwise."
    )


@dataclass(frozen=True)
class ClientPopulation:
    """The clients as a topology sees them: how many, how large, and who is drawn."""

    n_clients: int
    sizes: Callable[[], Sequence[int]]
    """How many examples each client trains on; may be refused where clients are made on demand."""
    sampler: ClientSampler
    rounds: int
    seed: int
    layout: Layout
    keeps_to_end: Callable[[int, int], float] = lambda client, t: 1.0
    """How long a visit of a client in a round takes by itself, in simulated seconds; 1 if the run
    has no clock."""
    column: Callable[[str], Sequence[str]] = no_columns
    """The value of a column of the data, such as a town, at each client; may be refused."""
    classes: int | None = None
    """How many there are, if every example has one."""
    descriptions: Descriptions = field(default_factory=dict)
    """What clients have said of themselves."""
    guesses_groups: bool = False
    """Whether groups that nobody can know yet are guessed, for estimates."""
    timed: bool = False
    """Whether the run has a clock."""
    _groups: dict[str, tuple[Chain, ...]] = field(default_factory=dict, repr=False, compare=False)
    _stories: dict[str, tuple[Iterator[Any], list[Any]]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _vectors: dict[Describer, Vectors] = field(default_factory=dict, repr=False, compare=False)

    def with_descriptions(self, descriptions: Descriptions) -> ClientPopulation:
        """The same once clients have said of themselves what they were asked."""
        return replace(self, descriptions=descriptions, _groups={}, _stories={}, _vectors={})

    @property
    def with_guessed_groups(self) -> ClientPopulation:
        """The same before they have: groups are guessed by their sizes alone."""
        return replace(self, guesses_groups=True, _groups={}, _stories={}, _vectors={})

    def descriptions_by(self, describer: Describer) -> Sequence[Tensor]:
        """What each client has said of itself, as a topology that names the describer among its own
        can ask."""
        if describer not in self.descriptions:
            raise SettingError(
                f"clients have not been asked for {describer}: that is done when a run begins, for those describers "
                "that its topology declares."
            )
        return self.descriptions[describer]

    def draw(self, t: int) -> list[int]:
        """The cohort of round ``t``, out of everybody."""
        return self.draw_from(t, self.n_clients, self.sizes)

    def draw_from(
        self, t: int, count: int, sizes: Callable[[], Sequence[int]], place: int = 0
    ) -> list[int]:
        """As the sampler draws out of ``count`` others; draws of one round at different places are
        drawn apart."""
        return self.sampler.draw(t, count, self.seed, sizes, place)

    def rng(self, purpose: str, *path: int) -> np.random.Generator:
        """Random numbers of the run's seed, for a topology's own draws."""
        return numpy_generator(self.seed, f"topology/{purpose}", *path)

    def sequence(self, name: str, tell: Callable[[], Iterator[T]], t: int) -> T:
        """The ``t``-th of what ``tell`` tells, where each round depends on those before it; told
        once, and kept."""
        if name not in self._stories:
            self._stories[name] = tell(), []
        more, told = self._stories[name]
        while len(told) <= t:
            told.append(next(more))
        found: T = told[t]
        return found

    def groups(self, grouping: Grouping, *path: int) -> tuple[Chain, ...]:
        """Everybody in groups, made once and looked at for clients lost or repeated; other ones by
        another path."""
        known = f"{grouping} {path}"
        if known not in self._groups:
            self._groups[known] = self._grouped(grouping, *path)
        return self._groups[known]

    def _representers(self, describer: Describer) -> Vectors:
        """What clients are compared by, made once."""
        if describer not in self._vectors:
            self._vectors[describer] = representers(describer, self.descriptions_by(describer))
        return self._vectors[describer]

    def _grouped(self, grouping: Grouping, *path: int) -> tuple[Chain, ...]:
        if self.guesses_groups and not all(one in self.descriptions for one in grouping.describers):
            return tuple(map(tuple, grouping.about(self.sizes())))
        known = [self._representers(one) for one in grouping.describers]
        if grouping.needs_column is not None:
            values = self.column(grouping.needs_column)
            known.append(np.unique(values, return_inverse=True)[1].astype(np.float64)[:, None])
        vectors = np.concatenate(known, axis=1) if known else np.zeros((self.n_clients, 0))
        assigned = grouping.assign(
            vectors, self.sizes(), self.rng("groups", *path), classes=self.classes
        )
        found = tuple(map(tuple, assigned))
        if not all(found) or sorted(client for group in found for client in group) != list(
            range(self.n_clients)
        ):
            raise SettingError(
                f"{grouping} must put each of the {self.n_clients} clients into one group and leave no group empty, "
                f"found {shown(found)}."
            )
        return found
