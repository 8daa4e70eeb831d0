"""FedDC.

Gao et al., FedDC: Federated Learning with Non-IID Data via Local Drift Decoupling and Correction,
CVPR 2022.

    h_k = c_k = c = 0 at the start; K = all clients, S = clients of the round
    client k of C^t receives w^t and c:
 1      u = g_k(w) + alpha (w - (w^t - h_k)) + c - c_k
 2      h_k <- h_k + (w_k - w^t)
 3      c_k^+ = c_k - c + (w^t - w_k) / (tau_k eta_l)   eta_l of this round
    server:
 4      c <- c + (1/K) sum_{C^t} (c_k^+ - c_k);  c_k <- c_k^+
 5      w^{t+1} = (1/S) sum_{C^t} w_k + (1/K) sum_{all k} h_k

``all`` is the mean over all K of the last model of every client, w^0 for those never seen.
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_step


def run(problem: Problem, plan: Plan, *, alpha: float) -> Trace:
    """Trace: server, local, active, all, c, c_k and h_k (round, client)."""
    K = problem.clients
    w_server, c = problem.w0, np.zeros(problem.dim)
    h_k = [np.zeros(problem.dim) for _ in range(K)]
    c_k = [np.zeros(problem.dim) for _ in range(K)]
    last = [problem.w0 for _ in range(K)]
    trace = Trace(server=[], local=[], active=[], all=[], c=[], c_k=[], h_k=[])
    for t in range(plan.rounds):
        cohort, local, dc = plan.cohorts[t], {}, {}
        for k in cohort:
            w, m = w_server, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                u = (
                    problem.gradient(k, w, batch) + alpha * (w - (w_server - h_k[k])) + c - c_k[k]
                )  # 1
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = last[k] = w
            h_k[k] = h_k[k] + (w - w_server)  # 2
            c_plus = c_k[k] - c + (w_server - w) / (plan.steps(t, k) * plan.lr[t])  # 3
            dc[k] = c_plus - c_k[k]
            c_k[k] = c_plus
        c = c + sum(dc[k] for k in cohort) / K  # 4
        active = sum(local[k] for k in cohort) / len(cohort)
        w_server = active + sum(h_k) / K  # 5
        trace.server.append(w_server)
        trace.local.append(local)
        trace.active.append(active)
        trace.all.append(sum(last) / K)
        trace.c.append(c)
        trace.c_k.append(list(c_k))
        trace.h_k.append(list(h_k))
    return trace
