"""MAN: a penalty on activations. Yashwanth et al., Minimizing Layerwise Activation Norm Improves
Generalization in Federated Learning, WACV 2024, Equations 15 and 16, on FedAvg or, with ``rho``, on
FedSAM.

The network: a1 = tanh(W1 x + b1), a2 = tanh(W2 a1 + b2), scores = W3 a2 + b3.

    client k of C^t, from w^t:
 1      loss = CE(scores, y) + zeta (mean a1^2 + mean a2^2)            means over batch and units; scores do not count
 2      u = gradient of the loss at w;  FedSAM: at w + rho g / ||g||, g the gradient of the whole loss, at w
    server:
 3      w^{t+1} = w^t - eta_g sum_{C^t} p_k (w^t - w_k)

``man_scale="repo"``: zeta/2, as in the released code.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from literal.network import Array, Examples, cut, joined, slope
from literal.problem import Plan, Trace, local_step, weights


def run(
    data: Examples,
    plan: Plan,
    *,
    shapes: Sequence[tuple[int, ...]],
    zeta: float,
    rho: float = 0.0,
    man_scale: str = "paper",
) -> Trace:
    """Trace: server, local. ``shapes``: of W1, b1, W2, b2, W3, b3."""
    zeta = zeta / 2 if man_scale == "repo" else zeta
    w_server = data.w0
    trace = Trace(server=[], local=[])
    for t in range(plan.rounds):
        cohort, local = plan.cohorts[t], {}
        for k in cohort:
            w, m = w_server, np.zeros_like(w_server)
            for places in plan.orders[t][k]:
                u = gradient(w, shapes, *data.batch(k, places), zeta)
                if rho:
                    eps = rho * u / (np.linalg.norm(u) + 1e-12)
                    u = gradient(w + eps, shapes, *data.batch(k, places), zeta)  # 2
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
        p = weights(data, cohort, "sized")
        w_server = w_server - plan.server_lr * sum(
            p[k] * (w_server - local[k]) for k in cohort
        )  # 3
        trace.server.append(w_server)
        trace.local.append(local)
    return trace


def gradient(w: Array, shapes: Sequence[tuple[int, ...]], x: Array, y: Array, zeta: float) -> Array:
    """The gradient of line 1."""
    W1, b1, W2, b2, W3, b3 = cut(w, shapes)
    a1 = np.tanh(x @ W1.T + b1)
    a2 = np.tanh(a1 @ W2.T + b2)
    d3 = slope(a2 @ W3.T + b3, y)
    d2 = (d3 @ W3 + zeta * 2 * a2 / a2.size) * (1 - a2**2)
    d1 = (d2 @ W2 + zeta * 2 * a1 / a1.size) * (1 - a1**2)
    return joined([d1.T @ x, d1.sum(0), d2.T @ a1, d2.sum(0), d3.T @ a2, d3.sum(0)])
