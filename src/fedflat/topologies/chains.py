"""Chains: clients train one after the other, and the last one's model is returned.

Zaccone et al., Speeding up Heterogeneous Federated Learning with Sequentially Trained Superclients,
ICPR 2022 (FedSeq).

    groups=N   all clients are put into N superclients once; the sampler selects superclients, and
               each trains all its clients, in a new random order in every round (FedSeq)
    cut=n      the cohort of the round is cut into n chains, in a random order; cut=1 is FedCyclic.
               A given cohort keeps its order

    passes=E   every chain is repeated E times, in a new random order, with new batches
    growth     the number of superclients grows with the rounds, and clients are grouped anew
               (FedSeq2Par)
    draw       how many superclients: as many as clients a round (draw="chains"), or the same share
               of them, m = max(1, floor(C N)), where C is the share of the clients (draw="share")

    chain i    x_i = w;  E times, for each of its clients in order: x_i <- local steps from x_i
    server     w <- sum_i |D_i| x_i / sum_i |D_i|,  |D_i| the examples of all clients of chain i

Server pieces and recorded metrics see a chain as one reply. Traffic between clients is counted
separately from traffic with the server. Other instructions than training go to every client of the
chains directly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from fedflat.errors import SettingError, choice, number, shown
from fedflat.registry.specs import register
from fedflat.server.client_selection import Chain, ClientSampler, Selection
from fedflat.topologies.groupings.fixed import RandomGroups, grouping_of
from fedflat.topologies.groupings.grouping import Grouping
from fedflat.topologies.groupings.growth import Growth
from fedflat.topologies.groupings.icg import Icg
from fedflat.topologies.topology import SERVER, ClientPopulation, Topology


@dataclass(frozen=True, repr=False)
class Chains(Topology):
    """Clients train one after the other.

    They are in fixed superclients, or in a cohort that is cut in every round.
    """

    key = "chains"

    groups: int | Grouping | None = None
    cut: int | None = None
    _: KW_ONLY
    draw: str = "chains"
    passes: int = 1
    growth: Growth | None = None

    def __post_init__(self) -> None:
        if (self.groups is None) == (self.cut is None):
            raise SettingError(
                "chains: give either groups=N, superclients that stay together, or cut=N, the "
                "cohort of each round cut into N chains; found "
                f"{'neither' if self.cut is None else 'both'}."
            )
        number("chains", "passes", self.passes, low=1, whole=True)
        choice("chains", "draw", self.draw, ["chains", "share"])
        if self.cut is None:
            self._check_growth(grouping_of("chains", self.groups))
            return
        number("chains", "cut", self.cut, low=1, whole=True)
        if self.draw != "chains" or self.growth is not None:
            name = "draw" if self.growth is None else "growth"
            raise SettingError(
                f"chains: {name} is about superclients, but with cut there are none. Leave it out."
            )

    def _check_growth(self, grouping: Grouping) -> None:
        if self.growth is None:
            return
        if not isinstance(self.growth, Growth):
            raise SettingError(
                f"chains: growth must be one such as linear(0.1, b=5), found {shown(self.growth)}."
            )
        if not isinstance(grouping, Icg | RandomGroups):
            raise SettingError(
                f"chains: {grouping} cannot change its number of groups, as {self.growth} needs "
                "it. Use icg(...) or a number."
            )
        if grouping.count != self.growth.b:
            raise SettingError(
                f"chains: {grouping} has {grouping.count} groups, but {self.growth} begins with "
                f"{self.growth.b}. Use the same number in both."
            )

    @property
    def has_chains(self) -> bool:
        """True: clients train one after the other."""
        return True

    def superclients(self, population: ClientPopulation, t: int = 0) -> tuple[Chain, ...]:
        """Return the superclients of round ``t``. There are none where cohorts are cut."""
        if self.groups is None:
            return ()
        grouping = grouping_of("chains", self.groups)
        if self.growth is None:
            return population.groups(grouping)
        assert isinstance(grouping, Icg | RandomGroups)
        count = self.count(population, t)
        return population.groups(grouping.into(count), count)

    def count(self, population: ClientPopulation, t: int) -> int:
        """Return the number of superclients in round ``t``."""
        return (
            self.growth.groups(t, population.n_clients)
            if self.growth
            else len(self.superclients(population))
        )

    def sampler(self, population: ClientPopulation, groups: int) -> ClientSampler:
        """Return the sampler that selects out of ``groups`` superclients."""
        if self.draw == "chains" or population.sampler.cohorts is not None:
            return population.sampler
        return replace(
            population.sampler,
            clients=max(1, population.sampler.clients * groups // population.n_clients),
        )

    def check_before(self, population: ClientPopulation) -> None:
        """Refuse as many superclients as clients."""
        super().check_before(population)
        if isinstance(self.groups, Icg):
            self._refuse_single(population, self.groups.count)

    def check(self, population: ClientPopulation) -> None:
        """Refuse more chains than there are, and unintended chains of one client."""
        if self.cut is None:
            groups = len(self.superclients(population))
            self._refuse_single(population, groups)
            if self.draw == "share" and population.sampler.cohorts is None:
                return super().check(population)
            if population.sampler.cohorts is None and population.sampler.clients > groups:
                raise SettingError(
                    f"{population.sampler.clients} clients a round were asked for, which with "
                    f"{self} are superclients, but there are only {groups}. Use at most {groups}, "
                    "or make more of them."
                )
            return population.sampler.check(groups, population.rounds)
        super().check(population)
        if population.sampler.smallest(population.rounds) < self.cut:
            raise SettingError(
                f"{self} cuts a cohort into {self.cut} chains, but there are rounds with "
                f"{population.sampler.smallest(population.rounds)} clients only. Use more clients "
                "a round, or make fewer chains."
            )
        if (
            population.sampler.cohorts is None
            and population.sampler.kind != "bernoulli"
            and population.sampler.clients == self.cut
        ):
            raise self._single(
                f"{self.cut} clients a round, cut into {self.cut}, are chains", "Use more of them"
            )

    def _refuse_single(self, population: ClientPopulation, groups: int) -> None:
        if groups == population.n_clients and isinstance(self.groups, int | Icg | RandomGroups):
            raise self._single(
                f"{groups} superclients of {groups} clients are chains", "Make fewer of them"
            )

    def _single(self, found: str, remedy: str) -> SettingError:
        return SettingError(
            f"{self}: {found} of one client each, so no client would train another one's model: "
            f"that is a star. {remedy}, or use a star; given_groups(...) makes chains of one where "
            "they are meant."
        )

    def select(self, population: ClientPopulation, t: int) -> Selection:
        """Return the chains of round ``t``.

        Superclients are in ascending order. Chains of a cohort are in the order of their first
        clients, or in the given order.
        """
        if self.cut is None:
            groups = self.superclients(population, t)
            selected = self.sampler(population, len(groups)).draw(
                t, len(groups), population.seed, lambda: _sizes(population, groups)
            )
            return {SERVER: [self._order(population, (t, i), groups[i]) for i in selected]}
        cohort = population.draw(t)
        if population.sampler.cohorts is not None:
            return {
                SERVER: [
                    tuple(part.tolist()) * self.passes for part in np.array_split(cohort, self.cut)
                ]
            }
        shuffled = population.rng("chain", t).permutation(cohort)
        parts = sorted(
            part.tolist() for part in np.array_split(shuffled, min(self.cut, len(cohort)))
        )
        return {
            SERVER: [
                (*part, *self._order(population, (t, i), part, 1)) for i, part in enumerate(parts)
            ]
        }

    def _order(
        self,
        population: ClientPopulation,
        path: tuple[int, int],
        clients: Sequence[int],
        first: int = 0,
    ) -> Chain:
        """The clients of a chain, pass by pass, from the pass ``first`` on."""
        paths = ((*path, p) if p else path for p in range(first, self.passes))
        return tuple(
            client
            for one in paths
            for client in population.rng("chain", *one).permutation(clients).tolist()
        )

    def smallest_cohort(self, population: ClientPopulation) -> int:
        """Return the number of chains in a round."""
        if self.cut is not None:
            return self.cut
        return self.sampler(population, self.count(population, 0)).smallest(population.rounds)

    def expected_clients(self, population: ClientPopulation) -> int:
        """Return the number of clients of all chains, in all passes."""
        if self.cut is not None:
            return self.passes * population.sampler.expected_clients(population.rounds)
        counts = Counter(self.count(population, t) for t in range(population.rounds))
        shares = (
            self.sampler(population, n).expected_clients(rounds) / n for n, rounds in counts.items()
        )
        return round(self.passes * population.n_clients * sum(shares))


def _sizes(population: ClientPopulation, groups: Sequence[Chain]) -> Sequence[int]:
    sizes = population.sizes()
    return [sum(sizes[client] for client in group) for group in groups]


chains = register("topology", "chains")(Chains)
