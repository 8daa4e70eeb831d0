"""FedSpeed.

Sun et al., FedSpeed: Larger Local Interval, Less Communication Round, and Higher Generalization
Accuracy, ICLR 2023, Algorithm 1, with the ascent normalised as the authors run it.

    sigma_k = 0 at the start
    client k of C^t, from w^t:
 1      g1 = g_k(w);  g2 = g_k(w + rho g1 / ||g1||)
 2      u = (1 - a_s) g1 + a_s g2 - sigma_k + (w - w^t) / lam
 3      sigma_k <- sigma_k - (w_k - w^t) / lam
 4      upload z_k = w_k - lam sigma_k
    server:
 5      w^{t+1} = (1/S) sum_{C^t} z_k

``server="feddyn"``: instead of lines 4 and 5, the server rule of FedDyn with alpha = 1/lam, as in the
authors' simulator (which has a_s = 1):
 6      sigma <- sigma - 1/(lam K) sum_{C^t} (w_k - w^t);  w^{t+1} = (1/S) sum_{C^t} w_k - lam sigma
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_step


def run(
    problem: Problem, plan: Plan, *, rho: float, lam: float, a_s: float = 1.0, server: str = "paper"
) -> Trace:
    """Trace: server, local, sigma (0 in the paper's form), sigma_k (round, client)."""
    if server not in ("paper", "feddyn"):
        raise ValueError(f"server is 'paper' or 'feddyn', not {server!r}")
    K = problem.clients
    w_server, sigma = problem.w0, np.zeros(problem.dim)
    sigma_k = [np.zeros(problem.dim) for _ in range(K)]
    trace = Trace(server=[], local=[], sigma=[], sigma_k=[])
    for t in range(plan.rounds):
        cohort, local = plan.cohorts[t], {}
        for k in cohort:
            w, m = w_server, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                g1 = problem.gradient(k, w, batch)  # 1
                g2 = problem.gradient(k, w + rho * g1 / (np.linalg.norm(g1) + 1e-12), batch)
                u = (1 - a_s) * g1 + a_s * g2 - sigma_k[k] + (w - w_server) / lam  # 2
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
            sigma_k[k] = sigma_k[k] - (w - w_server) / lam  # 3
        if server == "paper":
            w_server = sum(local[k] - lam * sigma_k[k] for k in cohort) / len(cohort)  # 4, 5
        else:
            sigma = sigma - sum(local[k] - w_server for k in cohort) / (lam * K)  # 6
            w_server = sum(local[k] for k in cohort) / len(cohort) - lam * sigma
        trace.server.append(w_server)
        trace.local.append(local)
        trace.sigma.append(sigma)
        trace.sigma_k.append(list(sigma_k))
    return trace
