"""What every grouping is, and what most have in common: groups are filled one after the other.

A client joins the group that is open while it has fewer than ``d_min`` examples and fewer than
``k_max`` clients; then another is opened. Only the last group is looked at again: if it has fewer
than ``d_min`` examples its clients leave it, the last to come first, one each in turn to the groups
with room, of which those with the fewest examples come first.
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
"""Short names of what a client can be described by."""
Groups = list[list[int]]
Choice = Callable[[list[int], np.ndarray], int]
"""Who comes next: from the group so far, and the clients that are in none, in ascending order."""


class Grouping(TextSpec, ABC):
    """A frozen dataclass that puts clients into groups."""

    psi: str | Describer | None
    """What clients are described by: a describer, its text, or one of `PSIS`; None: nothing."""

    @property
    def owner(self) -> str:
        """Its name, for messages."""
        return repr(self).partition("(")[0]

    @property
    def describers(self) -> tuple[Describer, ...]:
        """What every client must say of itself before round 0."""
        if self.psi is None or isinstance(self.psi, Describer):
            return () if self.psi is None else (self.psi,)
        return (parse(PSIS.get(self.psi, self.psi), "describer"),)

    @property
    def needs_column(self) -> str | None:
        """The column of the data that it is made by, if so: its values, as numbers, are then the
        representers."""
        return None

    def possible(self, sizes: Sequence[int]) -> None:
        """Refuse what cannot be, whatever clients say of themselves: before they are asked."""

    def about(self, sizes: Sequence[int]) -> Groups:
        """Groups of about the number and the sizes that there will be, as long as clients have not
        been asked."""
        return [list(range(len(sizes)))]

    @abstractmethod
    def assign(
        self,
        representers: Vectors,
        sizes: Sequence[int],
        rng: np.random.Generator,
        *,
        classes: int | None = None,
    ) -> Groups:
        """The clients of each group.

        ``representers`` has a row for each client, ``sizes`` its number of examples; ``classes`` is
        the number of classes of the data.
        """

    def checked(self, representers: Vectors, sizes: Sequence[int]) -> Vectors:
        """The representers, once they are known to be fit."""
        found = np.asarray(representers, np.float64)
        if found.ndim != 2 or len(found) != len(sizes) or not found.size:
            raise SettingError(
                f"{self.owner}: each of the {len(sizes)} clients must be described by a vector of one length, found "
                f"an array of shape {found.shape}."
            )
        if not np.isfinite(found).all():
            client = int(np.flatnonzero(~np.isfinite(found).all(1))[0])
            raise SettingError(
                f"{self.owner}: the description of client {client} is not finite. If it comes from training, lower "
                "the learning rate."
            )
        return found

    def check_psi(self) -> None:
        """Refuse a description that is not known."""
        if not isinstance(self.psi, Describer):
            told = isinstance(self.psi, str) and known(self.psi.partition("(")[0].strip())
            if not told or told.kind != "describer":
                choice(self.owner, "psi", self.psi, PSIS)


class Filling(Grouping):
    """Groups that are filled one after the other, within limits."""

    d_min: int
    """A group is filled until it has as many examples."""
    k_max: int
    """No group has more clients."""

    def check_limits(self, d_min: int, k_max: int) -> None:
        """Refuse limits that no group can keep."""
        number(self.owner, "d_min", d_min, low=1, whole=True)
        number(self.owner, "k_max", k_max, low=1, whole=True)

    def possible(self, sizes: Sequence[int]) -> None:
        """Refuse groups that all clients together could not fill, or the largest of them."""
        self._enough(sizes, self.d_min, self.k_max)

    def _enough(self, sizes: Sequence[int], d_min: int, k_max: int) -> None:
        if sum(sizes) < d_min:
            raise SettingError(
                f"{self.owner}: a group must have d_min={d_min} examples, but all {len(sizes)} clients together have "
                f"{sum(sizes)}. Lower d_min."
            )
        largest = sum(sorted(sizes)[-k_max:])
        if largest < d_min:
            raise SettingError(
                f"{self.owner}: a group must have d_min={d_min} examples, but the k_max={k_max} clients with most have "
                f"{largest} together. Lower d_min or raise k_max."
            )

    def about(self, sizes: Sequence[int]) -> Groups:
        """As if clients came by number."""
        try:
            return self.fill(in_order(range(len(sizes))), sizes, self.d_min, self.k_max)
        except SettingError:  # which others may not meet
            return super().about(sizes)

    def fill(self, choose: Choice, sizes: Sequence[int], d_min: int, k_max: int) -> Groups:
        """The groups, if ``choose`` says who comes next."""
        if not sizes:
            raise SettingError(f"{self.owner}: there are no clients to group.")
        self._enough(sizes, d_min, k_max)
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
                f"{self.owner}: every client has d_min={d_min} examples by itself, so that each group would be one "
                "client. Raise d_min, or say k_max=1 if groups of one are meant."
            )
        return groups

    def _dissolve(self, groups: Groups, examples: Sequence[int], d_min: int, k_max: int) -> None:
        """Let the clients of the last group join the others."""
        last = groups.pop()
        room = sum(k_max - len(group) for group in groups)
        if room < len(last):
            raise SettingError(
                f"{self.owner}: the last group has {examples[-1]} examples, fewer than d_min={d_min}, and the "
                f"{len(groups)} groups before have room for {room} of its {len(last)} clients with k_max={k_max}. "
                "Lower d_min or raise k_max."
            )
        turn = cycle(sorted(range(len(groups)), key=lambda at: examples[at]))
        while last:
            group = groups[next(turn)]
            if len(group) < k_max:
                group.append(last.pop())


def evenly(count: int, clients: int) -> Groups:
    """Clients by number in ``count`` groups of equal size or nearly; no group is empty."""
    return [part.tolist() for part in np.array_split(np.arange(clients), min(count, clients))]


def in_order(order: Sequence[int]) -> Choice:
    """Clients come in this order.

    >>> choose = in_order([2, 0, 1])
    >>> choose([], np.arange(3)), choose([2], np.arange(2))
    (2, 0)
    """
    coming = iter(order)
    return lambda group, free: int(next(coming))
