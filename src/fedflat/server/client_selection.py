"""Who is asked in a round. A cohort depends on (seed, round) alone, so a resumed run draws the
same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedflat.core.seeds import numpy_generator
from fedflat.errors import SettingError
from fedflat.settings.groups import SamplerSettings


@dataclass(frozen=True, kw_only=True)
class ClientSampler(SamplerSettings):
    """Draws the cohort of each round; costs nothing that grows with the population, except
    "by_size".

    A draw by size goes through the sizes of all clients in each round; who makes clients on demand
    must make them all once to count, and refuses that for many.
    """

    def check(self, population: int, rounds: int) -> None:
        """Refuse what cannot be drawn from ``population`` clients in ``rounds`` rounds."""
        if self.cohorts is None:
            if self.clients > population:
                raise SettingError(
                    f"{self.clients} clients a round were asked for, but there are only {population}. "
                    f"Use at most {population}, or cut the data into more clients."
                )
            return
        if not _lists(self.cohorts) or not all(map(_lists, self.cohorts)):
            raise SettingError(
                "cohorts must be a list with a list of clients for each round, as in [[0, 3], [1, 2]]."
            )
        if len(self.cohorts) < rounds:
            raise SettingError(
                f"{len(self.cohorts)} cohorts were given for {rounds} rounds. Give one for each."
            )
        for t, cohort in enumerate(self.cohorts[:rounds]):
            wrong = [k for k in cohort if not (isinstance(k, int) and 0 <= k < population)]
            if wrong or not cohort or len(set(cohort)) != len(cohort):
                raise SettingError(
                    f"the cohort of round {t} must be different clients from 0 to {population - 1}, found "
                    f"{list(cohort)}."
                )

    def smallest(self, rounds: int) -> int:
        """The smallest cohort to expect (their usual size under "bernoulli")."""
        return min(map(len, self.cohorts[:rounds])) if self.cohorts is not None else self.clients

    def expected_clients(self, rounds: int) -> int:
        """How many clients are asked in all (their expected number under "bernoulli")."""
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
        """The clients of round ``t``, in rising order if they were drawn; ``sizes`` is asked by
        "by_size" only.

        Draws of one round at several places, as in several clusters, are drawn apart.
        """
        if self.cohorts is not None:
            return list(self.cohorts[t])
        path = (t, place) if place else (t,)
        rng = numpy_generator(seed if self.seeding == "run" else 0, f"cohort/{self.seeding}", *path)
        count = self.clients
        if (
            self.kind == "bernoulli"
        ):  # the size of the cohort, then its members: the same law, without K draws
            count = 0
            while count == 0:
                count = int(rng.binomial(population, self.clients / population))
        share = None
        if self.kind == "by_size":
            assert sizes is not None
            share = np.asarray(sizes(), dtype=float)
            share = share / share.sum()
        return sorted(rng.choice(population, size=count, replace=False, p=share).tolist())


def _lists(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
