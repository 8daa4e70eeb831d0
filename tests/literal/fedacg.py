"""FedACG.

Kim et al., Communication-Efficient Federated Learning with Accelerated Client Gradient, CVPR 2024.

    m^0 = 0; m points downhill, as in the paper
    server sends:
 1      y = w^t + lam m^t
    client k of C^t, from y:
 2      u = g_k(w) + beta_p (w - y)
    server:
 3      m^{t+1} = lam m^t + (1/S) sum_{C^t} (w_k - y)
 4      w^{t+1} = w^t + m^{t+1}                         the evaluated model
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_step


def run(problem: Problem, plan: Plan, *, lam: float, beta_p: float) -> Trace:
    """Trace: server, local, m, sent (y)."""
    w_server, momentum = problem.w0, np.zeros(problem.dim)
    trace = Trace(server=[], local=[], m=[], sent=[])
    for t in range(plan.rounds):
        cohort, local = plan.cohorts[t], {}
        y = w_server + lam * momentum  # 1
        for k in cohort:
            w, m = y, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                u = problem.gradient(k, w, batch) + beta_p * (w - y)  # 2
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
        momentum = lam * momentum + sum(local[k] - y for k in cohort) / len(cohort)  # 3
        w_server = w_server + momentum  # 4
        trace.server.append(w_server)
        trace.local.append(local)
        trace.m.append(momentum)
        trace.sent.append(y)
    return trace
