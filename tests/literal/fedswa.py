"""FedSWA and FedMoSWA.

Liu et al., Improving Generalization in Federated Learning with Highly Heterogeneous Data via
Momentum-Based Stochastic Controlled Weight Averaging, ICML 2025, Algorithms 1 and 2.

    client k of C^t, tau steps from w^t, step i with the rate
 1      r_i = eta_l (1 - i/tau) + rho eta_l i/tau
 2      FedSWA: u = g_k(w);   FedMoSWA: u = g_k(w) - c_k + m
 3      FedMoSWA: c_k' = c_k - m + (w^t - w_k) / sum_i r_i
    server:
 4      v = (1/S) sum_{C^t} w_k;   w^{t+1} = w^t + alpha (v - w^t)
 5      FedMoSWA: m <- m + gamma (1/S) sum_{C^t} (c_k' - m);  c_k <- c_k'

``gamma=None`` is FedSWA. ``flavour="repo"``: m of round 0 is the whole mean of c_k'.
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
    gamma: float | None = None,
    flavour: str = "paper",
) -> Trace:
    """Trace: server, local, m, c_k (round, client)."""
    w_server, m_server = problem.w0, np.zeros(problem.dim)
    c_k = [np.zeros(problem.dim) for _ in range(problem.clients)]
    trace = Trace(server=[], local=[], m=[], c_k=[])
    for t in range(plan.rounds):
        cohort, local, new = plan.cohorts[t], {}, {}
        for k in cohort:
            tau, total_rate = plan.steps(t, k), 0.0
            w, m = w_server, np.zeros(problem.dim)
            for i, batch in enumerate(plan.orders[t][k]):
                rate = plan.lr[t] * (1 - i / tau) + rho * plan.lr[t] * i / tau  # 1
                u = problem.gradient(k, w, batch)  # 2
                if gamma is not None:
                    u = u - c_k[k] + m_server
                w, m = local_step(w, m, u, rate, plan)
                total_rate += rate
            local[k] = w
            new[k] = c_k[k] - m_server + (w_server - w) / total_rate  # 3
        mean = sum(local[k] for k in cohort) / len(cohort)
        w_server = w_server + alpha * (mean - w_server)  # 4
        if gamma is not None:
            share = 1.0 if flavour == "repo" and t == 0 else gamma
            m_server = m_server + share * sum(new[k] - m_server for k in cohort) / len(cohort)  # 5
            for k in cohort:
                c_k[k] = new[k]
        trace.server.append(w_server)
        trace.local.append(local)
        trace.m.append(m_server)
        trace.c_k.append(list(c_k))
    return trace
