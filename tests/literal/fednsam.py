"""FedNSAM.

Liu et al., FedNSAM: Consistency of Local and Global Flatness for Federated Learning, 2026.

    m^0 = 0; m points downhill
    server sends:
 1      y = w^t + lam m^t
    client k of C^t, from y:
 2      eps = rho g_k(w) / ||g_k(w)||        ascent="momentum": eps = -rho m^t / ||m^t||, 0 if m^t = 0
 3      u = g_k(w + eps)
    server:
 4      m^{t+1} = lam m^t + (1/S) sum_{C^t} (w_k - y)
 5      w^{t+1} = w^t + m^{t+1}

``flavour="repo"``: line 4 from the second round on is (1 + lam) (1/S) sum_{C^t} (w_k - y).
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_step


def run(
    problem: Problem,
    plan: Plan,
    *,
    lam: float,
    rho: float,
    ascent: str = "local",
    flavour: str = "paper",
) -> Trace:
    """Trace: server, m."""
    w_server, momentum = problem.w0, np.zeros(problem.dim)
    trace = Trace(server=[], m=[])
    for t in range(plan.rounds):
        cohort, local = plan.cohorts[t], {}
        y = w_server + lam * momentum  # 1
        for k in cohort:
            w, m = y, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                up = problem.gradient(k, w, batch) if ascent == "local" else -momentum
                eps = rho * up / (np.linalg.norm(up) + 1e-12)  # 2
                u = problem.gradient(k, w + eps, batch)  # 3
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
        mean = sum(local[k] - y for k in cohort) / len(cohort)
        if flavour == "repo" and t > 0:
            momentum = (1 + lam) * mean
        else:
            momentum = lam * momentum + mean  # 4
        w_server = w_server + momentum  # 5
        trace.server.append(w_server)
        trace.m.append(momentum)
    return trace
