"""FedProx. Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020, Algorithm 2.

1  client: minimise f_k(w) + mu_p/2 ||w - w^t||^2, so u = g_k(w) + mu_p (w - w^t)
2  server: w^{t+1} = w^t - eta_g sum_k p_k (w^t - w_k)
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_step, weights


def run(problem: Problem, plan: Plan, *, mu_p: float, weighting: str = "sized") -> Trace:
    """Trace: server, local."""
    w_server = problem.w0
    trace = Trace(server=[], local=[])
    for t in range(plan.rounds):
        local, delta = {}, np.zeros(problem.dim)
        p = weights(problem, plan.cohorts[t], weighting)
        for k in plan.cohorts[t]:
            w, m = w_server, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                u = problem.gradient(k, w, batch) + mu_p * (w - w_server)  # 1
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
            delta = delta + p[k] * (w_server - w)
        w_server = w_server - plan.server_lr * delta  # 2
        trace.server.append(w_server)
        trace.local.append(local)
    return trace
