"""MoFedSAM. Qu et al., Generalized Federated Learning via Sharpness Aware Minimization, ICML 2022.

   D^0 = 0; tau = steps per client, their mean over C^t if they differ
   client k of C^t receives w^t and D^t:
1      eps = rho g_k(w) / ||g_k(w)||
2      u = a g_k(w + eps) + (1 - a) D^t
   server:
3      Delta = (1/S) sum_{C^t} (w^t - w_k)
4      D^{t+1} = Delta / (tau eta_l)
5      w^{t+1} = w^t - eta_g Delta
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_step


def run(problem: Problem, plan: Plan, *, a: float, rho: float) -> Trace:
    """Trace: server, local, D (after each round)."""
    w_server, D = problem.w0, np.zeros(problem.dim)
    trace = Trace(server=[], local=[], D=[])
    for t in range(plan.rounds):
        cohort, local = plan.cohorts[t], {}
        for k in cohort:
            w, m = w_server, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                g = problem.gradient(k, w, batch)
                eps = rho * g / (np.linalg.norm(g) + 1e-12)  # 1
                u = a * problem.gradient(k, w + eps, batch) + (1 - a) * D  # 2
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
        delta = sum(w_server - local[k] for k in cohort) / len(cohort)  # 3
        tau = sum(plan.steps(t, k) for k in cohort) / len(cohort)
        D = delta / (tau * plan.lr[t])  # 4
        w_server = w_server - plan.server_lr * delta  # 5
        trace.server.append(w_server)
        trace.local.append(local)
        trace.D.append(D)
    return trace
