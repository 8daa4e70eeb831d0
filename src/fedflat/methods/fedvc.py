"""FedVC: clients of all sizes as virtual clients of one size.

Hsu, Qi and Brown, Federated Visual Classification with Real-World Data Distribution, ECCV 2020.

    drawn      a client with probability N_k / N, without replacement within a round
    visit      n of its examples, drawn anew: without replacement if it has as many, else all of them again and again
    server     the plain mean

So every visit makes as many steps, and every example is as likely to be used.
"""

from __future__ import annotations

from fedflat.composition.method import Method, method
from fedflat.errors import MOST_AT_ONCE, number


@method
def fedvc(n: int = 256) -> Method:
    """Clients drawn by their sizes, ``n`` examples a visit, all counting alike (Hsu et al., ECCV
    2020)."""
    number("fedvc", "n", n, low=1, high=MOST_AT_ONCE, whole=True)
    return Method(virtual=n, weighting="uniform")
