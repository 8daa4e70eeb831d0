"""Methods that bring their topology, by the names of their papers.

fedseq(groups=20) + sam(rho=0.05)        --topology "chains(groups=20, draw='share')" and SAM
fedasyncseq(groups=20, R=5)              --topology "bank(20, R=5, draw='share')"
fedseq2par(growth=linear(0.1, b=5))      --topology "chains(5, draw='share', growth=linear(0.1))"
fedcyclic()                              --topology "chains(cut=1)"
hfl(clusters=4, T_c=5)                   --topology "hierarchy(4, every=5)"
fedbuff(buffer=5)                        --topology "asynchronous(buffer=5, staleness='polynomial')"
fedasync(alpha=0.6)                      --topology "asynchronous(mixing=0.6, staleness='polynomial')"
"""

from __future__ import annotations

from fedflat.composition.method import Method, method
from fedflat.core.schedules import Scalar, scalar
from fedflat.errors import number
from fedflat.topologies.asynchronous import POLYNOMIAL, Asynchronous
from fedflat.topologies.bank import Bank
from fedflat.topologies.chains import Chains
from fedflat.topologies.groupings.grouping import Grouping
from fedflat.topologies.groupings.growth import Exponential, Growth
from fedflat.topologies.hierarchy import Hierarchy


@method
def fedseq(groups: int | Grouping = 10, passes: int = 1) -> Method:
    """Superclients whose clients train one after the other (Zaccone et al., ICPR 2022).

    ``groups`` is how many there are, put together at random, or a grouping. The share of
    superclients that is drawn in a round is the share of clients that a star would draw, at least
    one: a round has about as many visits. In each of several ``passes`` the clients of a
    superclient are visited in another order, on batches of their own.
    """
    return Method(topology=Chains(groups=groups, draw="share", passes=passes))


@method
def fedseq2par(
    growth: Growth = Exponential(0.01, 5), groups: Grouping | None = None, passes: int = 1
) -> Method:
    """FedSeq with ever more, ever shorter superclients: from sequential to parallel training
    (Caldarola's thesis).

    ``growth`` says how many there are in each round; whenever there are more, clients are put
    together anew, at random or by ``groups``, such as ``icg(5, psi='labels')`` for a growth that
    begins with 5. The share of superclients that is drawn stays the same.
    """
    first = growth.b if groups is None and isinstance(growth, Growth) else groups
    return Method(topology=Chains(groups=first, draw="share", passes=passes, growth=growth))


@method
def fedasyncseq(groups: int | Grouping = 10, R: int | str = Bank.R) -> Method:
    """FedSeq with a model for each chain, which goes from superclient to superclient; all meet
    every ``R`` rounds.

    ``R`` is a number, "superclients" (as many as there are), "chains" (as many as a round has), or
    "never". As many superclients are drawn as in `fedseq`.
    """
    return Method(topology=Bank(groups, R, draw="share"))


@method
def fedcyclic() -> Method:
    """All clients of a round in one chain, in random order; the last one's model is the
    server's."""
    return Method(topology=Chains(cut=1))


@method
def hfl(clusters: int | Grouping = 4, T_c: int = Hierarchy.every) -> Method:
    """Hierarchical FL: clusters with a model each, which become their mean every ``T_c`` rounds.

    The clients of a round are drawn in each cluster.
    """
    number("hfl", "T_c", T_c, low=1, whole=True)
    return Method(topology=Hierarchy(clusters, T_c))


@method
def fedbuff(
    buffer: int = 5,
    concurrency: int | None = None,
    staleness: str = POLYNOMIAL,
    a: float | None = None,
    b: float | None = None,
    durations: str | None = None,
    spread: float | None = None,
) -> Method:
    """Clients always at work; the server steps whenever ``buffer`` replies have come (Nguyen et
    al., AISTATS 2022).

    ``concurrency`` clients are at work, as many as clients a round if it is not said. A stale reply
    counts less.
    """
    return Method(
        topology=Asynchronous(buffer, concurrency, staleness, a, b, None, durations, spread)
    )


@method
def fedasync(
    alpha: Scalar = 0.6,
    concurrency: int | None = None,
    staleness: str = POLYNOMIAL,
    a: float | None = None,
    b: float | None = None,
    durations: str | None = None,
    spread: float | None = None,
) -> Method:
    """Clients always at work; each one's model is mixed in with weight ``alpha`` when it comes (Xie
    et al., 2019).

    ``concurrency`` clients are at work, as many as clients a round if it is not said. A stale model
    counts less.
    """
    scalar("fedasync", "alpha", alpha, open_low=True, high=1)
    return Method(topology=Asynchronous(1, concurrency, staleness, a, b, alpha, durations, spread))
