"""FedSMOO.

Sun et al., Dynamic Regularized Sharpness Aware Minimization in Federated Learning: Approaching
Global Consistency and Smooth Landscape, ICML 2023.

    sigma = sigma_k = s = mu_k = 0 at the start; K = all clients, S = clients of the round
    client k of C^t receives w^t and s; at every local step:
 1      q = g_k(w) - mu_k - s
 2      eps = rho q / ||q||
 3      mu_k <- mu_k + eps - s
 4      u = g_k(w + eps) - sigma_k + (w - w^t) / beta
    after its run:
 5      sigma_k <- sigma_k - (w_k - w^t) / beta
    server:
 6      mbar = (1/S) sum_{C^t} mu_k;  s <- rho mbar / ||mbar||          0 if mbar = 0
 7      sigma <- sigma - 1/(beta K) sum_{C^t} (w_k - w^t)
 8      w^{t+1} = (1/S) sum_{C^t} w_k - beta sigma

Line 6 is the authors' simulator. The paper averages ``mu_k - eps`` with each client's last eps
(``s_from="mu_minus_eps"``).
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_step


def run(problem: Problem, plan: Plan, *, rho: float, beta: float, s_from: str = "mu") -> Trace:
    """Trace: server, local, s, mu_k, sigma, sigma_k (mu_k, sigma_k: round, client)."""
    if s_from not in ("mu", "mu_minus_eps"):
        raise ValueError(f"s_from is 'mu' or 'mu_minus_eps', not {s_from!r}")
    K = problem.clients
    w_server, s, sigma = problem.w0, np.zeros(problem.dim), np.zeros(problem.dim)
    mu_k = [np.zeros(problem.dim) for _ in range(K)]
    sigma_k = [np.zeros(problem.dim) for _ in range(K)]
    trace = Trace(server=[], local=[], s=[], mu_k=[], sigma=[], sigma_k=[])
    for t in range(plan.rounds):
        cohort, local, sent_up = plan.cohorts[t], {}, {}
        for k in cohort:
            w, m = w_server, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                q = problem.gradient(k, w, batch) - mu_k[k] - s  # 1
                eps = rho * q / (np.linalg.norm(q) + 1e-12)  # 2
                mu_k[k] = mu_k[k] + eps - s  # 3
                u = problem.gradient(k, w + eps, batch) - sigma_k[k] + (w - w_server) / beta  # 4
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
            sent_up[k] = mu_k[k] if s_from == "mu" else mu_k[k] - eps
            sigma_k[k] = sigma_k[k] - (w - w_server) / beta  # 5
        mbar = sum(sent_up[k] for k in cohort) / len(cohort)  # 6
        norm = np.linalg.norm(mbar)
        s = rho * mbar / norm if norm > 0 else np.zeros(problem.dim)
        sigma = sigma - sum(local[k] - w_server for k in cohort) / (beta * K)  # 7
        w_server = sum(local[k] for k in cohort) / len(cohort) - beta * sigma  # 8
        trace.server.append(w_server)
        trace.local.append(local)
        trace.s.append(s)
        trace.mu_k.append(list(mu_k))
        trace.sigma.append(sigma)
        trace.sigma_k.append(list(sigma_k))
    return trace
