"""H-FL: clusters train separately and merge every ``T_c`` rounds.

    round        each cluster c: w_c <- the server's step on the replies of its own clients
    every T_c    w = sum_c (N_c / N) w_c;  w_c <- w for all c;  N_c the examples of cluster c

``hfl(clusters=4, T_c=5)`` chooses the topology ``hierarchy(4, every=5)``.
"""

from __future__ import annotations

from fedflat.composition.method import Method, method
from fedflat.errors import number
from fedflat.topologies.groupings.grouping import Grouping
from fedflat.topologies.hierarchy import Hierarchy


@method
def hfl(clusters: int | Grouping = 4, T_c: int = Hierarchy.every) -> Method:
    """Hierarchical FL: clusters with a model each, which merge every ``T_c`` rounds.

    The clients of a round are selected in each cluster.
    """
    number("hfl", "T_c", T_c, low=1, whole=True)
    return Method(topology=Hierarchy(clusters, T_c))
