"""FedVC: clients of all sizes act as virtual clients of one size.

Hsu, Qi and Brown, Federated Visual Classification with Real-World Data Distribution, ECCV 2020.

    selection  client k with probability N_k / N, without replacement within a round
    client     n of its examples, a new draw each time: without replacement if it has as many, else
               all of them repeatedly
    server     the plain mean

So every client makes the same number of steps, and every example is equally likely to be used.
"""

from __future__ import annotations

from fedflat.composition.method import Method, method
from fedflat.errors import MOST_AT_ONCE, number


@method
def fedvc(n: int = 256) -> Method:
    """Clients selected by size, ``n`` examples and equal weight each (Hsu et al., ECCV 2020)."""
    number("fedvc", "n", n, low=1, high=MOST_AT_ONCE, whole=True)
    return Method(virtual=n, weighting="uniform")
