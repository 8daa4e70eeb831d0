"""Base classes of groupings. Most groupings fill one group after the other.

A client joins the open group while it has fewer than ``d_min`` examples and fewer than ``k_max``
clients; then another group is opened. If the last group has fewer than ``d_min`` examples, its
clients move to the groups with room: the last client first, one for each group in turn, starting
with the group with the fewest examples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import cycle

import numpy as np

from fedflat.client.instructions import Describer
from fedflat.errors import SettingError, choice, number
from fedflat.registry.specs import TextSpec, known, parse
from fedflat.topologies.groupings.dissimilarity import Vectors

PSIS = {
    "labels": "label_counts()",
    "confidence": "confidence()",
    "classifier": "classifier_weights()",
    "task2vec": "task2vec()",
}
"""Short names of descriptions."""
Groups = list[list[int]]
"""The clients of each group."""
Choice = Callable[[list[int], np.ndarray], int]
"""Returns the next client, given the group so far and the free clients in ascending order."""


class Grouping(TextSpec, ABC):
    """Base class of groupings: a frozen dataclass that puts clients into groups."""

    psi: str | Describer | None
    """The description of clients: a describer, its text, or one of `PSIS`; None for none."""

    @property
    def owner(self) -> str:
        """The name of the grouping in messages."""
        return repr(self).partition("(")[0]

    @property
    def describers(self) -> tuple[Describer, ...]:
        """Descriptions that every client must compute before round 0."""
        if self.psi is None or isinstance(self.psi, Describer):
            return () if self.psi is None else (self.psi,)
        return (parse(PSIS.get(self.psi, self.psi), "describer"),)

    @property
    def needs_column(self) -> str | None:
        """The column of the data that it uses, or None.

        Its values, as numbers, are then the representers.
        """
        return None

    def possible(self, sizes: Sequence[int]) -> None:
        """Raise `SettingError` for impossible groups, before clients compute descriptions."""

    @abstractmethod
    def assign(
        self,
        representers: Vectors,
        sizes: Sequence[int],
        rng: np.random.Generator,
        *,
        classes: int | None = None,
    ) -> Groups:
        """Return the clients of each group.

        ``representers`` has a row for each client, ``sizes`` its number of examples; ``classes`` is
        the number of classes of the data.
        """

    def checked(self, representers: Vectors, sizes: Sequence[int]) -> Vectors:
        """Return the representers as an array. Raise `SettingError` if they are unusable."""
        found = np.asarray(representers, np.float64)
        if found.ndim != 2 or len(found) != len(sizes) or not found.size:
            raise SettingError(
                f"{self.owner}: each of the {len(sizes)} clients must be described by a vector of "
                f"one length, found an array of shape {found.shape}."
            )
        if not np.isfinite(found).all():
            client = int(np.flatnonzero(~np.isfinite(found).all(1))[0])
            raise SettingError(
                f"{self.owner}: the description of client {client} is not finite. If it comes from "
                "training, lower the learning rate."
            )
        return found

    def check_psi(self) -> None:
        """Raise `SettingError` for an unknown description."""
        if not isinstance(self.psi, Describer):
            entry = isinstance(self.psi, str) and known(self.psi.partition("(")[0].strip())
            if not entry or entry.kind != "describer":
                choice(self.owner, "psi", self.psi, PSIS)


class Filling(Grouping):
    """Base class of groupings that fill one group after the other, within limits."""

    d_min: int
    """A group is filled until it has this many examples."""
    k_max: int
    """Largest number of clients in a group."""

    def check_limits(self, d_min: int, k_max: int) -> None:
        """Raise `SettingError` for limits out of range."""
        number(self.owner, "d_min", d_min, low=1, whole=True)
        number(self.owner, "k_max", k_max, low=1, whole=True)

    def possible(self, sizes: Sequence[int]) -> None:
        """Refuse limits that all clients together, or the largest ones, could not meet."""
        self._check_enough(sizes, self.d_min, self.k_max)

    def _check_enough(self, sizes: Sequence[int], d_min: int, k_max: int) -> None:
        if sum(sizes) < d_min:
            raise SettingError(
                f"{self.owner}: a group must have d_min={d_min} examples, but all {len(sizes)} "
                f"clients together have {sum(sizes)}. Lower d_min."
            )
        largest = sum(sorted(sizes)[-k_max:])
        if largest < d_min:
            raise SettingError(
                f"{self.owner}: a group must have d_min={d_min} examples, but the k_max={k_max} "
                f"clients with most have {largest} together. Lower d_min or raise k_max."
            )

    def fill(self, choose: Choice, sizes: Sequence[int], d_min: int, k_max: int) -> Groups:
        """Return the groups. ``choose`` returns the next client."""
        if not sizes:
            raise SettingError(f"{self.owner}: there are no clients to group.")
        self._check_enough(sizes, d_min, k_max)
        groups: Groups = []
        examples: list[int] = []
        free = np.arange(len(sizes))
        while len(free):
            if not groups or examples[-1] >= d_min or len(groups[-1]) >= k_max:
                groups.append([])
                examples.append(0)
            client = choose(groups[-1], free)
            groups[-1].append(client)
            examples[-1] += sizes[client]
            free = free[free != client]
        if examples[-1] < d_min:
            self._dissolve(groups, examples, d_min, k_max)
        if k_max > 1 and len(groups) > 1 and max(map(len, groups)) == 1:
            raise SettingError(
                f"{self.owner}: every client alone has d_min={d_min} examples, so that each group "
                "would be one client. Raise d_min, or set k_max=1 if groups of one are meant."
            )
        return groups

    def _dissolve(self, groups: Groups, examples: Sequence[int], d_min: int, k_max: int) -> None:
        """Move the clients of the last group to the others."""
        last = groups.pop()
        room = sum(k_max - len(group) for group in groups)
        if room < len(last):
            raise SettingError(
                f"{self.owner}: the last group has {examples[-1]} examples, fewer than "
                f"d_min={d_min}, and the {len(groups)} groups before have room for {room} of its "
                f"{len(last)} clients with k_max={k_max}. Lower d_min or raise k_max."
            )
        turn = cycle(sorted(range(len(groups)), key=lambda at: examples[at]))
        while last:
            group = groups[next(turn)]
            if len(group) < k_max:
                group.append(last.pop())


def in_order(order: Sequence[int]) -> Choice:
    """Return a `Choice` of clients in this order.

    >>> choose = in_order([2, 0, 1])
    >>> choose([], np.arange(3)), choose([2], np.arange(2))
    (2, 0)
    """
    clients = iter(order)
    return lambda group, free: int(next(clients))
