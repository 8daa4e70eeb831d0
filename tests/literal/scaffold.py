"""SCAFFOLD, option II.

Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning, ICML 2020,
Algorithm 1.

    c = c_k = 0 at the start; K = all clients, S = clients of the round, tau_k = steps client k takes
    client k of C^t receives w^t and c:
 1      u = g_k(w) - c_k + c
 2      c_k^+ = c_k - c + (w^t - w_k) / (tau_k eta_l)
 3      dc_k = c_k^+ - c_k;  c_k <- c_k^+
    server:
 4      w^{t+1} = w^t - eta_g (1/S) sum_{C^t} (w^t - w_k)
 5      c <- c + (1/K) sum_{C^t} dc_k
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_step


def run(problem: Problem, plan: Plan) -> Trace:
    """Trace: server, local, c, c_k (round, client)."""
    K = problem.clients
    w_server, c = problem.w0, np.zeros(problem.dim)
    c_k = [np.zeros(problem.dim) for _ in range(K)]
    trace = Trace(server=[], local=[], c=[], c_k=[])
    for t in range(plan.rounds):
        cohort, local, dc = plan.cohorts[t], {}, {}
        for k in cohort:
            w, m = w_server, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                u = problem.gradient(k, w, batch) - c_k[k] + c  # 1
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
            c_plus = c_k[k] - c + (w_server - w) / (plan.steps(t, k) * plan.lr[t])  # 2
            dc[k] = c_plus - c_k[k]  # 3
            c_k[k] = c_plus
        w_server = w_server - plan.server_lr * sum(w_server - local[k] for k in cohort) / len(
            cohort
        )  # 4
        c = c + sum(dc[k] for k in cohort) / K  # 5
        trace.server.append(w_server)
        trace.local.append(local)
        trace.c.append(c)
        trace.c_k.append(list(c_k))
    return trace
