"""Methods that bring their topology, by the names of their papers.

    fedseq(groups=20) + sam(rho=0.05)        --topology "chains(groups=20, draw='share')" and SAM
    fedcyclic()                              --topology "chains(cut=1)"
    hfl(clusters=4, T_c=5)                   --topology "hierarchy(4, every=5)"
"""

from __future__ import annotations

from fedflat.composition.method import Method, method
from fedflat.topology.chains import Chains
from fedflat.topology.grouping.grouping import Grouping
from fedflat.topology.hierarchy import Hierarchy


@method
def fedseq(groups: int | Grouping = 10) -> Method:
    """Superclients whose clients train one after the other (Zaccone et al., ICPR 2022).

    ``groups`` is how many there are, put together at random, or a grouping. The share of superclients that is drawn in
    a round is the share of clients that a star would draw, at least one: a round has about as many visits.
    """
    return Method(topology=Chains(groups=groups, draw="share"))


@method
def fedcyclic() -> Method:
    """All clients of a round in one chain, in random order; the last one's model is the server's."""
    return Method(topology=Chains(cut=1))


@method
def hfl(clusters: int | Grouping = 4, T_c: int = Hierarchy.every) -> Method:
    """Hierarchical FL: clusters with a model each, which become their mean every ``T_c`` rounds.

    The clients of a round are drawn in each cluster.
    """
    return Method(topology=Hierarchy(clusters, T_c))
