"""FedSAM.

Qu et al., Generalized Federated Learning via Sharpness Aware Minimization, ICML 2022; Caldarola et
al., Improving Generalization in Federated Learning by Seeking Flat Minima, ECCV 2022, Algorithm 1.

    client k of C^t, from w^t, both gradients on the same batch:
 1      eps = rho g_k(w) / ||g_k(w)||
 2      u = g_k(w + eps)                               weight decay is added later, at w
    server:
 3      w^{t+1} = w^t - eta_g sum_k p_k (w^t - w_k)
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_step, weights


def run(problem: Problem, plan: Plan, *, rho: float, weighting: str = "sized") -> Trace:
    """Trace: server, local, eps and u (round, client, step; u before clipping and decay)."""
    w_server = problem.w0
    trace = Trace(server=[], local=[], eps=[], u=[])
    for t in range(plan.rounds):
        local, delta = {}, np.zeros(problem.dim)
        trace.eps.append({k: [] for k in plan.cohorts[t]})
        trace.u.append({k: [] for k in plan.cohorts[t]})
        p = weights(problem, plan.cohorts[t], weighting)
        for k in plan.cohorts[t]:
            w, m = w_server, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                g = problem.gradient(k, w, batch)
                eps = rho * g / (np.linalg.norm(g) + 1e-12)  # 1
                u = problem.gradient(k, w + eps, batch)  # 2
                w, m = local_step(w, m, u, plan.lr[t], plan)
                trace.eps[t][k].append(eps)
                trace.u[t][k].append(u)
            local[k] = w
            delta = delta + p[k] * (w_server - w)
        w_server = w_server - plan.server_lr * delta  # 3
        trace.server.append(w_server)
        trace.local.append(local)
    return trace
