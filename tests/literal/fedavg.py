"""FedAvg.

McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS
2017.

    for each round t, each client k of C^t:
 1      w_k <- local SGD from w^t,  u = g_k(w)
 2      Delta_k = w^t - w_k
    server:
 3      Delta = sum_k p_k Delta_k                       p_k = N_k / N, by size
 4      w^{t+1} = w^t - eta_g Delta                     eta_g = 1: the mean of the w_k
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_step, weights


def run(problem: Problem, plan: Plan, *, weighting: str = "sized") -> Trace:
    """Trace: server, local (round, client: w_k), delta."""
    w_server = problem.w0
    trace = Trace(server=[], local=[], delta=[])
    for t in range(plan.rounds):
        local, delta = {}, np.zeros(problem.dim)
        p = weights(problem, plan.cohorts[t], weighting)
        for k in plan.cohorts[t]:
            w, m = w_server, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                u = problem.gradient(k, w, batch)  # 1
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
            delta = delta + p[k] * (w_server - w)  # 2, 3
        w_server = w_server - plan.server_lr * delta  # 4
        trace.server.append(w_server)
        trace.local.append(local)
        trace.delta.append(delta)
    return trace
