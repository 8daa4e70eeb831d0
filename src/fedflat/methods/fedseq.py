"""FedSeq and its variants, where the clients of a superclient train one after the other; and H-FL.

Zaccone et al., Speeding up Heterogeneous Federated Learning with Sequentially Trained Superclients,
ICPR 2022. FedSeq2Par and FedCyclic follow Caldarola's thesis.

    chain i    x_i = w;  for each client of superclient i: x_i <- local steps from x_i
    server     w <- sum_i |D_i| x_i / sum_i |D_i|,  |D_i| the examples of superclient i

The methods choose a topology, in which the updates are:

    fedseq(groups=20)                      chains(groups=20, draw='share')
    fedseq2par(growth=linear(0.1, b=5))    chains(5, draw='share', growth=linear(0.1))
    fedasyncseq(groups=20, R=5)            bank(20, R=5, draw='share')
    fedcyclic()                            chains(cut=1)
    hfl(clusters=4, T_c=5)                 hierarchy(4, every=5)

In H-FL clusters train separately and merge every ``T_c`` rounds:

    round        each cluster c: w_c <- the server's step on the replies of its own clients
    every T_c    w = sum_c (N_c / N) w_c;  w_c <- w for all c;  N_c the examples of cluster c
"""

from __future__ import annotations

from fedflat.composition.method import Method, method
from fedflat.errors import number
from fedflat.topologies.bank import Bank
from fedflat.topologies.chains import Chains
from fedflat.topologies.groupings.grouping import Grouping
from fedflat.topologies.groupings.growth import Exponential, Growth
from fedflat.topologies.hierarchy import Hierarchy


@method
def fedseq(groups: int | Grouping = 10, passes: int = 1) -> Method:
    """Superclients whose clients train one after the other (Zaccone et al., ICPR 2022).

    ``groups`` is the number of random superclients, or a grouping. The share of superclients that
    is selected in a round is the share of clients that a star would select, at least one, so that a
    round trains about as many clients. Each of several ``passes`` trains the clients of a
    superclient in another order, on new batches.
    """
    return Method(topology=Chains(groups=groups, draw="share", passes=passes))


@method
def fedseq2par(
    growth: Growth = Exponential(0.01, 5), groups: Grouping | None = None, passes: int = 1
) -> Method:
    """FedSeq with ever more, ever shorter superclients (Caldarola's thesis).

    ``growth`` sets the number of superclients in each round. When it grows, clients are grouped
    again, at random or by ``groups``, such as ``icg(5, psi='labels')`` for a growth that begins
    with 5. The share of superclients that is selected stays the same.
    """
    first = growth.b if groups is None and isinstance(growth, Growth) else groups
    return Method(topology=Chains(groups=first, draw="share", passes=passes, growth=growth))


@method
def fedasyncseq(groups: int | Grouping = 10, R: int | str = Bank.R) -> Method:
    """FedSeq with a model per chain that moves between superclients; merged every ``R`` rounds.

    ``R`` is a number, "superclients" (their number), "chains" (the number of chains in a round), or
    "never". As many superclients are selected as in `fedseq`.
    """
    return Method(topology=Bank(groups, R, draw="share"))


@method
def fedcyclic() -> Method:
    """All clients of a round in one chain, in random order.

    The last client's model becomes the server's.
    """
    return Method(topology=Chains(cut=1))


@method
def hfl(clusters: int | Grouping = 4, T_c: int = Hierarchy.every) -> Method:
    """Hierarchical FL: clusters with a model each, which merge every ``T_c`` rounds.

    The clients of a round are selected in each cluster.
    """
    number("hfl", "T_c", T_c, low=1, whole=True)
    return Method(topology=Hierarchy(clusters, T_c))
