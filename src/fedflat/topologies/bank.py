"""Bank: one model per chain that moves between superclients; merged every R rounds (FedAsyncSeq).

Zaccone et al., Speeding up Heterogeneous Federated Learning with Sequentially Trained Superclients,
ICPR 2022.

    bank       m models, all w^0, counters p_i = 0;  m as `chains` selects them (draw)
    round      m superclients are selected; model i goes to one of them, not to its last one unless
               that is the only one: bank_i <- local steps through all its clients;
               p_i <- p_i + |D_S|
    every R    w = sum_i p_i bank_i / sum_i p_i,  bank_i <- w,  p_i <- 0

R is a number of rounds, "superclients" (their number), "chains" (m), or "never". Between two merges
the same mean is reported, and model averages use it. The server pieces of each model keep their
state over a merge. Models that merge in every round are one model: R=1 is `chains` with the same
clients, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from fedflat.core.flat import Model, mean_model
from fedflat.errors import SettingError, choice, number
from fedflat.registry.specs import register
from fedflat.server.client_selection import Chain, Selection
from fedflat.topologies.chains import Chains
from fedflat.topologies.groupings.grouping import Grouping
from fedflat.topologies.topology import SERVER, ClientPopulation, Topology

SUPERCLIENTS, CHAINS, NEVER = WORDS = ("superclients", "chains", "never")


@dataclass(frozen=True, repr=False)
class Bank(Topology):
    """A model for each chain of a round, which moves between superclients.

    All models merge every R rounds.

    groups
        Number of superclients, or a grouping of clients.
    """

    key = "bank"

    groups: int | Grouping
    R: int | str = SUPERCLIENTS
    draw: str = field(default="chains", kw_only=True)

    def __post_init__(self) -> None:
        Chains(groups=self.groups, draw=self.draw)
        if isinstance(self.R, str):
            choice("bank", "R", self.R, WORDS)
        else:
            number("bank", "R", self.R, low=1, whole=True)

    @property
    def chains(self) -> Chains:
        """The chains that select superclients, whichever model they train."""
        return Chains(groups=self.groups, draw=self.draw)

    def superclients(self, population: ClientPopulation) -> tuple[Chain, ...]:
        """Return the groups of clients that train one after the other."""
        return self.chains.superclients(population)

    @property
    def has_chains(self) -> bool:
        """True: clients train one after the other."""
        return True

    @property
    def merges_models(self) -> bool:
        return self.R != NEVER

    @property
    def reports_slots(self) -> bool:
        """False: a single model of the bank is not a result."""
        return False

    def every(self, population: ClientPopulation) -> int | None:
        """Return the number of rounds between merges; None for never."""
        if not isinstance(self.R, str):
            return self.R
        return {
            SUPERCLIENTS: len(self.superclients(population)),
            CHAINS: self.size(population),
        }.get(self.R)

    def merges_after(self, population: ClientPopulation, t: int) -> bool:
        """Return True if models merge after round ``t``."""
        every = self.every(population)
        return every is not None and (t + 1) % every == 0

    def size(self, population: ClientPopulation) -> int:
        """Return m, the number of chains."""
        return self.chains.smallest_cohort(population)

    def check(self, population: ClientPopulation) -> None:
        """Refuse a varying number of chains, and models that never merge."""
        self.chains.check(population)
        cohorts = population.sampler.cohorts
        if population.sampler.kind == "bernoulli" or (
            cohorts and len(set(map(len, cohorts[: population.rounds]))) > 1
        ):
            raise SettingError(
                f"{self} has a model for each chain, so every round must have the same number of "
                "chains, but this sampler's number varies. Use the sampler 'uniform' or 'by_size', "
                "or cohorts of one length."
            )
        every = self.every(population)
        if every is not None and every > population.rounds:
            raise SettingError(
                f"{self} merges its models every {every} rounds, but the run has only "
                f"{population.rounds}: they would never merge. Make R smaller, make more rounds, "
                "or use R='never' if that is meant."
            )

    def slots(self, population: ClientPopulation) -> Mapping[str, Sequence[int]]:
        """Return a model for each chain, open to all clients.

        If they merge in every round it is one model.
        """
        clients = range(population.n_clients)
        if self.every(population) == 1:
            return {SERVER: clients}
        return {f"chain{i}": clients for i in range(self.size(population))}

    def select(self, population: ClientPopulation, t: int) -> Selection:
        """Return the chains of the round, one for each model."""
        chains = population.sequence(repr(self), lambda: self._rounds_of_chains(population), t)
        slots = list(self.slots(population))
        return (
            {SERVER: chains}
            if slots == [SERVER]
            else dict(zip(slots, ([chain] for chain in chains), strict=True))
        )

    def _rounds_of_chains(self, population: ClientPopulation) -> Iterator[list[Chain]]:
        """The chains of each round, in the order of the models that train there."""
        home = {
            client: i for i, group in enumerate(self.superclients(population)) for client in group
        }
        left: Sequence[int | None] = [None] * self.size(population)
        for t in count():
            chains = self.chains.select(population, t)[SERVER]
            if population.sampler.cohorts is None and self.every(population) != 1:
                chains = _shuffle_away(population, t, chains, left, home)
            left = [home[chain[0]] for chain in chains]
            yield chains

    def weights(self, population: ClientPopulation, rounds: range) -> dict[str, int]:
        """Return p_i: the examples that each model has seen in some rounds."""
        sizes, found = population.sizes(), dict.fromkeys(self.slots(population), 0)
        for t in rounds:
            for slot, chains in self.select(population, t).items():
                found[slot] += sum(sizes[client] for chain in chains for client in set(chain))
        return found

    def merge(
        self,
        population: ClientPopulation,
        t: int,
        models: Mapping[str, Model],
        weights: Mapping[str, float],
    ) -> dict[str, Model]:
        """Replace all models by their mean, in the rounds in which they merge."""
        if not self.merges_after(population, t) or len(models) == 1:
            return dict(models)
        seen = self.weights(population, range(t + 1 - (self.every(population) or 0), t + 1))
        return dict.fromkeys(models, mean_model((models[slot], seen[slot]) for slot in seen))

    def center(self, population: ClientPopulation, done: int, models: Mapping[str, Model]) -> Model:
        """Return the mean of all models, weighted by what each has seen since the last merge."""
        seen = self.weights(
            population, range(done - done % (self.every(population) or done + 1), done)
        )
        if not any(seen.values()) or len(models) == 1:
            return next(iter(models.values()))
        return mean_model((models[slot], seen[slot]) for slot in seen)

    def smallest_cohort(self, population: ClientPopulation) -> int:
        return self.size(population) if self.every(population) == 1 else 1

    def parallel_clients(self, population: ClientPopulation) -> int:
        """Return the number of chains of all models."""
        return self.size(population)

    def expected_clients(self, population: ClientPopulation) -> int:
        """Return the number of clients in all chains."""
        return self.chains.expected_clients(population)


def _shuffle_away(
    population: ClientPopulation,
    t: int,
    chains: list[Chain],
    left: Sequence[int | None],
    home: Mapping[int, int],
) -> list[Chain]:
    """Shuffle chains until no model returns to the superclient it just left. One chain stays."""
    for attempt in count():
        order = [chains[i] for i in population.rng("bank", t, attempt).permutation(len(chains))]
        if len(chains) == 1 or all(
            home[chain[0]] != last for chain, last in zip(order, left, strict=True)
        ):
            return order
    raise AssertionError


bank = register("topology", "bank")(Bank)
