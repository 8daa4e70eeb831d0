"""Chains: clients train one after the other, and the last one's model comes back.

Zaccone et al., Speeding up Heterogeneous Federated Learning with Sequentially Trained Superclients, ICPR 2022 (FedSeq).

    groups=N   everybody is put into N superclients once; the sampler draws superclients, and each goes through all its
               clients, in an order drawn anew in every round (FedSeq)
    cut=n      the cohort of the round is cut into n chains, in a random order; cut=1 is FedCyclic. A cohort that was
               given is visited in the order given

    draw       of superclients: as many as there are to be clients a round (draw="chains"), or the same share of them,
               m = max(1, floor(C N)), where C is the share of the clients (draw="share")

    chain i    x_i = w;  for each of its clients in order: x_i <- local steps from x_i
    server     w <- sum_i |D_i| x_i / sum_i |D_i|,  |D_i| the examples of all clients of chain i

The server's pieces see a chain as one reply, and so do those who watch. What is handed from client to client is counted
apart from what goes to the server and comes from it. What the server asks besides training is asked of every client of
the chains by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

import numpy as np

from fedflat.data.sampling import Sampler
from fedflat.errors import SettingError, choice, number
from fedflat.language.spelling import register
from fedflat.topology.grouping.given import grouping_of
from fedflat.topology.grouping.grouping import Grouping
from fedflat.topology.topology import SERVER, Asked, Chain, Crowd, Topology


@dataclass(frozen=True, repr=False)
class Chains(Topology):
    """Clients train one after the other: superclients that stay together, or the cohort cut anew in every round."""

    key = "chains"

    groups: int | Grouping | None = None
    cut: int | None = None
    draw: str = field(default="chains", kw_only=True)

    def __post_init__(self) -> None:
        if (self.groups is None) == (self.cut is None):
            raise SettingError(
                "chains: say either groups=N, superclients that stay together, or cut=N, the cohort of each round cut "
                f"into N chains; found {'neither' if self.cut is None else 'both'}."
            )
        if self.cut is None:
            grouping_of("chains", self.groups)
            choice("chains", "draw", self.draw, ["chains", "share"])
        elif self.draw != "chains":
            raise SettingError(
                "chains: draw says how many superclients are drawn, and with cut there are none. Leave it out."
            )
        else:
            number("chains", "cut", self.cut, low=1, whole=True)

    @property
    def hands_on(self) -> bool:
        """That is what a chain is."""
        return True

    def superclients(self, crowd: Crowd) -> tuple[Chain, ...]:
        """Who trains one after the other; nobody stays together where cohorts are cut."""
        return () if self.groups is None else crowd.groups(grouping_of("chains", self.groups))

    def sampler(self, crowd: Crowd, groups: int) -> Sampler:
        """Who draws out of so many superclients."""
        if self.draw == "chains" or crowd.sampler.cohorts is not None:
            return crowd.sampler
        return replace(crowd.sampler, clients=max(1, crowd.sampler.clients * groups // crowd.population))

    def check(self, crowd: Crowd) -> None:
        """Refuse more chains than there are."""
        if self.cut is None:
            groups = len(self.superclients(crowd))
            if self.draw == "share" and crowd.sampler.cohorts is None:
                return super().check(crowd)
            if crowd.sampler.cohorts is None and crowd.sampler.clients > groups:
                raise SettingError(
                    f"{crowd.sampler.clients} clients a round were asked for, which with {self} are superclients, but "
                    f"there are only {groups}. Use at most {groups}, or make more of them."
                )
            return crowd.sampler.check(groups, crowd.rounds)
        super().check(crowd)
        if crowd.sampler.smallest(crowd.rounds) < self.cut:
            raise SettingError(
                f"{self} cuts a cohort into {self.cut} chains, but there are rounds with "
                f"{crowd.sampler.smallest(crowd.rounds)} clients only. Ask more clients a round, or make fewer chains."
            )

    def asked(self, crowd: Crowd, t: int) -> Asked:
        """Superclients in rising order; chains of a cohort by their first client, or as the cohort was given."""
        if self.cut is None:
            groups = self.superclients(crowd)
            drawn = self.sampler(crowd, len(groups)).draw(t, len(groups), crowd.seed, lambda: _sizes(crowd, groups))
            return {SERVER: [tuple(crowd.rng("chain", t, i).permutation(groups[i]).tolist()) for i in drawn]}
        cohort = crowd.draw(t)
        if crowd.sampler.cohorts is not None:
            return {SERVER: [tuple(part.tolist()) for part in np.array_split(cohort, self.cut)]}
        shuffled = crowd.rng("chain", t).permutation(cohort)
        return {SERVER: sorted(tuple(part.tolist()) for part in np.array_split(shuffled, min(self.cut, len(cohort))))}

    def smallest(self, crowd: Crowd) -> int:
        """Chains a round."""
        if self.cut is not None:
            return self.cut
        return self.sampler(crowd, len(self.superclients(crowd))).smallest(crowd.rounds)

    def visits(self, crowd: Crowd) -> int:
        """Every client of every chain."""
        if self.cut is not None:
            return crowd.sampler.visits(crowd.rounds)
        groups = self.superclients(crowd)
        return round(fmean(map(len, groups)) * self.sampler(crowd, len(groups)).visits(crowd.rounds))


def _sizes(crowd: Crowd, groups: Sequence[Chain]) -> Sequence[int]:
    sizes = crowd.sizes()
    return [sum(sizes[client] for client in group) for group in groups]


chains = register("topology", "chains")(Chains)
