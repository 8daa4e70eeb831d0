"""FedGMT.

Li et al., One Arrow, Two Hawks: Sharpness-aware Minimization for Federated Learning via Global
Model Trajectory, ICML 2025; the server's line is that of the released code.

    e = w^0, h_k = 0; K = all clients
    client k of C^t receives w^t and e; z, z_e: scores of w and of e
 1      loss = CE(z, y) + gamma T^2 KL( softmax(z_e / T) || softmax(z / T) )
 2      u = gradient of loss + h_k / beta
 3      h_k <- h_k + (w_k - w^t)
    server:
 4      w^{t+1} = sum_{C^t} p_k w_k + (1/K) sum_{all k} h_k          dual="active": sum_{C^t} p_k (w_k + h_k)
 5      e <- alpha e + (1 - alpha) w^{t+1}

Without ``shapes`` the problem is quadratic and has no scores: gamma is 0. With them the network is
a = tanh(W1 x + b1), z = W2 a + b2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from literal.network import (
    Array,
    Examples,
    divergence_slope,
    hidden_layer,
    hidden_layer_gradient,
    slope,
)
from literal.problem import Plan, Problem, Trace, local_step, weights


def run(
    problem: Problem | Examples,
    plan: Plan,
    *,
    alpha: float = 0.95,
    gamma: float = 0.0,
    beta: float,
    T: float = 3.0,
    dual: str = "all",
    shapes: Sequence[tuple[int, ...]] = (),
) -> Trace:
    """Trace: server, local, e, h_k (round, client)."""
    K, zero = problem.clients, np.zeros_like(problem.w0)
    w_server = e = problem.w0
    h = [zero] * K
    trace = Trace(server=[], local=[], e=[], h_k=[])

    def gradient(k: int, w: Array, places: Sequence[int]) -> Array:
        if isinstance(problem, Problem):
            return problem.gradient(k, w, places)
        x, y = problem.batch(k, places)
        z, z_e = hidden_layer(w, shapes, x)[1], hidden_layer(e, shapes, x)[1]
        dz = slope(z, y) + gamma * T**2 * divergence_slope(z_e, z, T)  # 1
        return hidden_layer_gradient(w, shapes, x, dz)

    for t in range(plan.rounds):
        cohort, local = plan.cohorts[t], {}
        for k in cohort:
            w, m = w_server, zero
            for places in plan.orders[t][k]:
                w, m = local_step(w, m, gradient(k, w, places) + h[k] / beta, plan.lr[t], plan)  # 2
            local[k] = w
            h[k] = h[k] + (w - w_server)  # 3
        p = weights(problem, cohort, "sized")
        if dual == "all":
            w_server = sum(p[k] * local[k] for k in cohort) + sum(h) / K  # 4
        else:
            w_server = sum(p[k] * (local[k] + h[k]) for k in cohort)
        e = alpha * e + (1 - alpha) * w_server  # 5
        trace.server.append(w_server)
        trace.local.append(local)
        trace.e.append(e)
        trace.h_k.append(list(h))
    return trace
