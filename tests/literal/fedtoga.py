"""FedTOGA.

Li et al., arXiv 2408.14144, as two public implementations have it.

    D = 0, h_k = 0 (in units of weights); K = all clients
    client k of C^t, from w^t; g' = 0 in its first step:
 1      s = g_k(w) + past g' + kappa D
 2      g = g_k(w + rho s / ||s||);  g' <- g
 3      u = g + alpha (h_k + w - w^t) + beta D
 4      h_k <- h_k + (w_k - w^t)
    server:
 5      w^{t+1} = (1/S) sum_{C^t} w_k + (1/K) sum_{all k} h_k
 6      D = (1/S) sum_{C^t} (w^t - w_k) / tau,   tau: mean steps of the cohort
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_step


def run(
    problem: Problem,
    plan: Plan,
    *,
    rho: float,
    alpha: float,
    beta: float,
    kappa: float = 1.0,
    past: float = 1.0,
) -> Trace:
    """Trace: server, local, D, h_k (round, client)."""
    K = problem.clients
    w_server, D = problem.w0, np.zeros(problem.dim)
    h = [np.zeros(problem.dim) for _ in range(K)]
    trace = Trace(server=[], local=[], D=[], h_k=[])
    for t in range(plan.rounds):
        cohort, local = plan.cohorts[t], {}
        for k in cohort:
            w, m = w_server, np.zeros(problem.dim)
            before = np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                s = problem.gradient(k, w, batch) + past * before + kappa * D  # 1
                g = problem.gradient(k, w + rho * s / (np.linalg.norm(s) + 1e-12), batch)  # 2
                before = g
                u = g + alpha * (h[k] + w - w_server) + beta * D  # 3
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
            h[k] = h[k] + (w - w_server)  # 4
        tau = sum(plan.steps(t, k) for k in cohort) / len(cohort)
        D = sum(w_server - local[k] for k in cohort) / len(cohort) / tau  # 6
        w_server = sum(local[k] for k in cohort) / len(cohort) + sum(h) / K  # 5
        trace.server.append(w_server)
        trace.local.append(local)
        trace.D.append(D)
        trace.h_k.append(list(h))
    return trace
