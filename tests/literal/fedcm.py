"""FedCM. Xu et al., FedCM: Federated Learning with Client-level Momentum, 2021.

   D^0 = 0; tau = steps per client, their mean over C^t if they differ
   client k of C^t receives w^t and D^t:
1      u = a g_k(w) + (1 - a) D^t
   server:
2      Delta = (1/S) sum_{C^t} (w^t - w_k)
3      D^{t+1} = Delta / (tau eta_l)                   eta_l of round t
4      w^{t+1} = w^t - eta_g Delta
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_step


def run(problem: Problem, plan: Plan, *, a: float) -> Trace:
    """Trace: server, local, D (after each round)."""
    w_server, D = problem.w0, np.zeros(problem.dim)
    trace = Trace(server=[], local=[], D=[])
    for t in range(plan.rounds):
        cohort, local = plan.cohorts[t], {}
        for k in cohort:
            w, m = w_server, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                u = a * problem.gradient(k, w, batch) + (1 - a) * D  # 1
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
        delta = sum(w_server - local[k] for k in cohort) / len(cohort)  # 2
        tau = sum(plan.steps(t, k) for k in cohort) / len(cohort)
        D = delta / (tau * plan.lr[t])  # 3
        w_server = w_server - plan.server_lr * delta  # 4
        trace.server.append(w_server)
        trace.local.append(local)
        trace.D.append(D)
    return trace
