"""Which rounds the headline of a run is the mean of."""

from __future__ import annotations

import math

from fedflat.errors import number

MOST = 100
"""As many as the papers take."""


def last_tenth(rounds: int) -> int:
    """How many of the last rounds count unless somebody says it: a tenth of them, at most a hundred.

    >>> last_tenth(100), last_tenth(5), last_tenth(20_000)
    (10, 1, 100)
    """
    number("run", "rounds", rounds, low=1, whole=True)
    return min(MOST, math.ceil(rounds / 10))
