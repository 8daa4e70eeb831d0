"""WiMA: the mean of the last W models of the server.

Caldarola et al., Window-based Model Averaging Improves Generalization in Heterogeneous Federated
Learning, ICCV Workshops 2023.

 1  w_wima^{t+1} = 1/W (w^{t+1} + w^t + ... + w^{t-W+2})

While fewer than W models exist, the mean of those seen. The initial model w^0 is not among them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from literal.problem import Array, Trace


def run(models: Sequence[Array], *, window: int, where: Array | None = None) -> Trace:
    """Follow the server's models ``w^1 .. w^T``. Trace: average.

    ``where``: a mask of the coordinates that are averaged; the others are the server's current
    ones.
    """
    trace = Trace(average=[])
    for t in range(len(models)):
        seen = [np.asarray(w, dtype=float) for w in models[max(0, t + 1 - window) : t + 1]]
        mean = sum(seen) / len(seen)  # 1
        trace.average.append(mean if where is None else np.where(where, mean, models[t]))
    return trace
