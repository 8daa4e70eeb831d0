"""FedInit.

Sun et al., Understanding How Consistency Works in Federated Learning via Stage-wise Relaxed
Initialization, NeurIPS 2023, Algorithm 1.

    w_last_k = w^0 for every client
    client k of C^t:
 1      starts from s_k = w^t + beta (w^t - w_last_k), plain steps to w_k
 2      w_last_k <- w_k
    server:
 3      w^{t+1} = (1/S) sum_{C^t} w_k

``origin="start"`` (FL-Simulator): w^{t+1} = w^t + (1/S) sum_{C^t} (w_k - s_k).
``alpha``: FedDyn besides. With ``o_k`` = w^t, or s_k for origin="start":
 4      u = g_k(w) - sigma_k + alpha (w - o_k);   sigma_k <- sigma_k - alpha (w_k - o_k)
 5      sigma <- sigma - (alpha/K) sum_{C^t} (w_k - o_k);  w^{t+1} <- line 3 minus sigma / alpha
``first="sent"``: a client's first request starts from w^t.
"""

from __future__ import annotations

import numpy as np

from literal.problem import Array, Plan, Problem, Trace, local_step


def run(
    problem: Problem,
    plan: Plan,
    *,
    beta: float,
    origin: str = "sent",
    first: str = "initial",
    alpha: float = 0.0,
) -> Trace:
    """Trace: server, start and local (round, client)."""
    K = problem.clients
    w_server = problem.w0
    last: list[Array | None] = [problem.w0 if first == "initial" else None] * K
    sigma = np.zeros(problem.dim)
    sigma_k = [np.zeros(problem.dim) for _ in range(K)]
    trace = Trace(server=[], start=[], local=[])
    for t in range(plan.rounds):
        cohort, start, local = plan.cohorts[t], {}, {}
        moved = np.zeros(problem.dim)
        for k in cohort:
            away = np.zeros(problem.dim) if last[k] is None else w_server - last[k]
            start[k] = w_server + beta * away  # 1
            o = start[k] if origin == "start" else w_server
            w, m = start[k], np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                u = problem.gradient(k, w, batch) - sigma_k[k] + alpha * (w - o)  # 4
                w, m = local_step(w, m, u, plan.lr[t], plan)
            sigma_k[k] = sigma_k[k] - alpha * (w - o)  # 4
            moved = moved + (w - o)
            local[k] = last[k] = w  # 2
        w_server = w_server + moved / len(cohort)  # 3
        if alpha:
            sigma = sigma - alpha / K * moved  # 5
            w_server = w_server - sigma / alpha
        trace.server.append(w_server)
        trace.start.append(start)
        trace.local.append(local)
    return trace
