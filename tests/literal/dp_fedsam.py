"""DP-FedSAM: FedSAM whose updates are clipped as a whole and get noise.

Shi et al., Make Landscape Flatter in Differentially Private Federated Learning, CVPR 2023.

    client k of C^t, S clients, from w^t, with FedSAM's local steps to w_k:
 1      D = w^t - w_k
 2      D <- D min(1, C / ||D||)
 3      D <- D + (sigma C / sqrt(S)) z_k                 z_k standard normal
    server:
 4      w^{t+1} = w^t - (1/S) sum_k D
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from literal.problem import Array, Plan, Problem, Trace, local_step


def run(
    problem: Problem,
    plan: Plan,
    *,
    rho: float,
    noise: float,
    clip: float,
    normal: Callable[[int, int], Array] | None = None,
) -> Trace:
    """Trace: server and update (round, client). ``normal`` gives z of a round and a client."""
    w_server = problem.w0
    trace = Trace(server=[], update=[])
    for t in range(plan.rounds):
        cohort, total, updates = plan.cohorts[t], np.zeros(problem.dim), {}
        for k in cohort:
            w, m = w_server, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                g = problem.gradient(k, w, batch)
                eps = rho * g / (np.linalg.norm(g) + 1e-12)
                w, m = local_step(w, m, problem.gradient(k, w + eps, batch), plan.lr[t], plan)
            D = w_server - w  # 1
            D = D * min(1.0, clip / np.linalg.norm(D))  # 2
            if noise:
                assert normal is not None
                D = D + noise * clip / np.sqrt(len(cohort)) * normal(t, k)  # 3
            updates[k] = D
            total = total + D
        w_server = w_server - total / len(cohort)  # 4
        trace.server.append(w_server)
        trace.update.append(updates)
    return trace
