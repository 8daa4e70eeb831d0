"""Client selection: which clients take part in a round.

A cohort depends only on the seed and the round, so a resumed run selects the same clients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedflat.core.seeds import numpy_generator
from fedflat.errors import SettingError
from fedflat.settings.groups import SamplerSettings

Chain = tuple[int, ...]
"""Clients, in the order in which they train the model; one client in a star."""
Selection = dict[str, list[Chain]]
"""For each slot that steps in a round: the chains that start from its model."""


def selected_clients(selection: Selection) -> list[int]:
    """All selected clients, in the order of their first requests."""
    return list(
        dict.fromkeys(
            client for chains in selection.values() for chain in chains for client in chain
        )
    )


@dataclass(frozen=True, kw_only=True)
class ClientSampler(SamplerSettings):
    """Selects the cohort of each round. The cost does not depend on the population, except for
    "by_size".

    "by_size" needs the sizes of all clients in each round. Federations that make clients on demand
    must make all of them once to count their examples, and refuse that for large populations.
    """

    def check(self, population: int, rounds: int) -> None:
        """Raise `SettingError` if the cohorts cannot be selected from ``population`` clients."""
        if self.cohorts is None:
            if self.clients > population:
                raise SettingError(
                    f"a round selects {self.clients} clients, but there are only {population}. Use "
                    f"at most {population} (clients_per_round), or split the data into more clients."
                )
            return
        if not _is_list(self.cohorts) or not all(map(_is_list, self.cohorts)):
            raise SettingError(
                "cohorts must be a list with a list of clients for each round, as in [[0, 3], [1, "
                "2]]."
            )
        if len(self.cohorts) < rounds:
            raise SettingError(
                f"{len(self.cohorts)} cohorts were given for {rounds} rounds. Give one for each."
            )
        for t, cohort in enumerate(self.cohorts[:rounds]):
            wrong = [k for k in cohort if not (isinstance(k, int) and 0 <= k < population)]
            if wrong or not cohort or len(set(cohort)) != len(cohort):
                raise SettingError(
                    f"the cohort of round {t + 1} must be different clients from 0 to "
                    f"{population - 1}, found {list(cohort)}."
                )

    def smallest(self, rounds: int) -> int:
        """Return the size of the smallest cohort. Under "bernoulli" it is the expected size."""
        return min(map(len, self.cohorts[:rounds])) if self.cohorts is not None else self.clients

    def expected_clients(self, rounds: int) -> int:
        """Return the number of clients in all rounds together.

        Under "bernoulli" it is the expected number.
        """
        return (
            rounds * self.clients if self.cohorts is None else sum(map(len, self.cohorts[:rounds]))
        )

    def draw(
        self,
        t: int,
        population: int,
        seed: int,
        sizes: Callable[[], Sequence[int]] | None = None,
        place: int = 0,
    ) -> list[int]:
        """Return the clients of round ``t``, in ascending order unless cohorts were given.

        ``sizes`` is called by "by_size" only. Use a different ``place`` for each draw of a round,
        as for each cluster: they are independent.
        """
        if self.cohorts is not None:
            return list(self.cohorts[t])
        path = (t, place) if place else (t,)
        rng = numpy_generator(seed if self.seeding == "run" else 0, f"cohort/{self.seeding}", *path)
        count = self.clients
        if self.kind == "bernoulli":
            # First the size of the cohort, then its members: the same distribution as one draw
            # per client, at less cost.
            count = 0
            while count == 0:
                count = int(rng.binomial(population, self.clients / population))
        share = None
        if self.kind == "by_size":
            assert sizes is not None
            share = np.asarray(sizes(), dtype=float)
            share = share / share.sum()
        drawn = rng.choice(population, size=count, replace=False, p=share)
        drawn.sort()
        clients: list[int] = drawn.tolist()
        return clients


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
