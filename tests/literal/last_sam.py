"""SAM along the gradient of the step before, "SAM-tilde" of Caldarola et al., CVPR 2025, Table 6,
at every client.

    g' is the gradient client k stepped along last, also in an earlier request; none before its first step
    client k of C^t, from w^t:
 1      eps = rho g' / ||g'||                            0 in its first step
 2      u = g_k(w + eps);  g' <- u
    server:
 3      w^{t+1} = w^t - eta_g sum_{C^t} p_k (w^t - w_k)

``g'`` is the gradient of the loss: clipping, weight decay and momentum come after it.
"""

from __future__ import annotations

import numpy as np

from literal.problem import Array, Plan, Problem, Trace, local_step, weights


def run(problem: Problem, plan: Plan, *, rho: float) -> Trace:
    """Trace: server, local, last (round, client: g', None before the first request)."""
    w_server = problem.w0
    last: list[Array | None] = [None] * problem.clients
    trace = Trace(server=[], local=[], last=[])
    for t in range(plan.rounds):
        cohort, local = plan.cohorts[t], {}
        for k in cohort:
            w, m = w_server, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                eps = np.zeros(problem.dim)
                if last[k] is not None:
                    eps = rho * last[k] / (np.linalg.norm(last[k]) + 1e-12)  # 1
                u = last[k] = problem.gradient(k, w + eps, batch)  # 2
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
        p = weights(problem, cohort, "sized")
        w_server = w_server - plan.server_lr * sum(
            p[k] * (w_server - local[k]) for k in cohort
        )  # 3
        trace.server.append(w_server)
        trace.local.append(local)
        trace.last.append(list(last))
    return trace
