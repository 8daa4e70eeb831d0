"""FedSOL.

Lee et al., FedSOL: Stabilized Orthogonal Learning with Proximal Restrictions in Federated Learning,
CVPR 2024, Algorithm 1; on FedAvg, weights by size.

    client k of C^t, from w^t:
 1      q(w) = KL( softmax(z_g / 3) || softmax(z / 3) )        z_g: scores of w^t;   "l2": ||w - w^t||^2 / 2
 2      eps = rho grad q / ||grad q||;   0 if w = w^t
        adaptive: eps = rho (n(|w - w^t|) * grad q) / ||grad q||, n: each tensor over its norms along axis 0
        ``where``: only these coordinates of grad q, the others are 0
 3      u = g_k(w + eps)

Without ``shapes`` the problem is quadratic ("l2"), and the vector is one column for the adaptive
form. With them the network is a = tanh(W1 x + b1), z = W2 a + b2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from literal.network import (
    Array,
    Examples,
    cut,
    divergence_slope,
    hidden_layer,
    hidden_layer_gradient,
    joined,
    slope,
)
from literal.problem import Plan, Problem, Trace, local_step, weights


def run(
    problem: Problem | Examples,
    plan: Plan,
    *,
    rho: float,
    proximal: str = "l2",
    form: str = "fixed",
    shapes: Sequence[tuple[int, ...]] = (),
    where: Array | None = None,
) -> Trace:
    """Trace: server, local."""
    w_server = problem.w0
    tensors = shapes or [(len(w_server),)]
    trace = Trace(server=[], local=[])

    def gradient(k: int, w: Array, places: Sequence[int]) -> Array:
        if isinstance(problem, Problem):
            return problem.gradient(k, w, places)
        x, y = problem.batch(k, places)
        return hidden_layer_gradient(w, shapes, x, slope(hidden_layer(w, shapes, x)[1], y))

    def perturbation(k: int, w: Array, places: Sequence[int]) -> Array:
        change = w - w_server
        if not change.any():
            return np.zeros_like(w)
        if proximal == "l2":
            up = change  # 1
        else:
            x, _ = problem.batch(k, places)
            z, z_g = hidden_layer(w, shapes, x)[1], hidden_layer(w_server, shapes, x)[1]
            up = hidden_layer_gradient(w, shapes, x, divergence_slope(z_g, z, 3.0))
        up = up if where is None else np.where(where, up, 0.0)
        scale = np.ones_like(w)
        if form == "adaptive":
            parts = [np.abs(part) for part in cut(change, tensors)]
            lengths = [np.sqrt((part**2).sum(axis=0, keepdims=True)) for part in parts]
            scale = joined(
                [part / np.maximum(n, 1e-12) for part, n in zip(parts, lengths, strict=True)]
            )
        return rho * scale * up / (np.linalg.norm(up) + 1e-12)  # 2

    for t in range(plan.rounds):
        cohort, local = plan.cohorts[t], {}
        for k in cohort:
            w, m = w_server, np.zeros_like(w_server)
            for places in plan.orders[t][k]:
                u = gradient(k, w + perturbation(k, w, places), places)  # 3
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
        p = weights(problem, cohort, "sized")
        w_server = w_server - plan.server_lr * sum(p[k] * (w_server - local[k]) for k in cohort)
        trace.server.append(w_server)
        trace.local.append(local)
    return trace
