"""Exponential moving average of the server's models.

1  w_ema <- gamma w_ema + (1 - gamma) w^{t+1},   started at the first model w^1
"""

from __future__ import annotations

from collections.abc import Sequence

from literal.problem import Array, Trace


def run(models: Sequence[Array], *, gamma: float) -> Trace:
    """Follow the server's models ``w^1 .. w^T``. Trace: average."""
    trace = Trace(average=[])
    for t in range(len(models)):
        w_ema = models[0]
        for w in models[1 : t + 1]:
            w_ema = gamma * w_ema + (1 - gamma) * w  # 1
        trace.average.append(w_ema)
    return trace
