"""Local SAM with a radius for every tensor by itself (a variant of Foret et al., ICLR 2021),
averaged as FedAvg does.

   client k of C^t, from w^t; l runs over the tensors:
1      eps_l = rho g_l / ||g_l||                        g = g_k(w), each tensor with its own norm
2      u = g_k(w + eps)
   server:
3      w^{t+1} = w^t - eta_g sum_{C^t} p_k (w^t - w_k)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from literal.problem import Plan, Problem, Trace, local_step, weights


def run(problem: Problem, plan: Plan, *, rho: float, layers: Sequence[Sequence[int]]) -> Trace:
    """Trace: server, local. ``layers``: the coordinates of every tensor."""
    w_server = problem.w0
    trace = Trace(server=[], local=[])
    for t in range(plan.rounds):
        cohort, local = plan.cohorts[t], {}
        for k in cohort:
            w, m = w_server, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                g = problem.gradient(k, w, batch)
                eps = np.zeros(problem.dim)
                for layer in layers:
                    part = list(layer)
                    eps[part] = rho * g[part] / (np.linalg.norm(g[part]) + 1e-12)  # 1
                u = problem.gradient(k, w + eps, batch)  # 2
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
        p = weights(problem, cohort, "sized")
        w_server = w_server - plan.server_lr * sum(
            p[k] * (w_server - local[k]) for k in cohort
        )  # 3
        trace.server.append(w_server)
        trace.local.append(local)
    return trace
