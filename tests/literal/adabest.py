"""AdaBest.

Varno et al., AdaBest: Minimizing Client Drift in Federated Learning via Adaptive Bias Estimation,
ECCV 2022, Algorithm 1.

    wbar = w^0 at the start; t'_k = the round of client k's last request
    client k of C^t, from w^t:
 1      u = g_k(w) - mu_a h_k                           h_k = 0 on the first request
 2      h_k <- h_k / (t - t'_k) + (w^t - w_k)           first request: h_k = w^t - w_k
 3      t'_k <- t
    server:
 4      wbar_new = (1/S) sum_{C^t} w_k
 5      h = beta_a (wbar - wbar_new)
 6      w^{t+1} = wbar_new - h;  wbar <- wbar_new

The paper keeps ``mu h_k`` where we keep ``h_k``: the same for a constant mu.

``mu_mode="per_sample"`` is the authors' simulator: ``mu_a`` in line 1 is multiplied by ``E
mean_j(P_j / tau_j) / N_k``. Request j went through P_j examples in tau_j steps; the mean runs over
all requests so far, those of the same round that came before included. E is the number of epochs of
this request.
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_step


def run(
    problem: Problem, plan: Plan, *, beta_a: float, mu_a: float, mu_mode: str = "plain"
) -> Trace:
    """Trace: server, local, wbar, h, h_k (round, client; None before the first request)."""
    K = problem.clients
    w_server = wbar = problem.w0
    h_k: list[np.ndarray | None] = [None] * K
    last: list[int | None] = [None] * K
    lengths: list[float] = []
    trace = Trace(server=[], local=[], wbar=[], h=[], h_k=[])
    for t in range(plan.rounds):
        cohort, local = plan.cohorts[t], {}
        for k in cohort:
            pull = np.zeros(problem.dim) if h_k[k] is None else h_k[k]
            P, tau, mu_k = sum(len(batch) for batch in plan.orders[t][k]), plan.steps(t, k), mu_a
            if mu_mode == "per_sample" and lengths:
                E = P / problem.sizes[k]
                mu_k = mu_a * E * (sum(lengths) / len(lengths)) / problem.sizes[k]
            lengths.append(P / tau)
            w, m = w_server, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                u = problem.gradient(k, w, batch) - mu_k * pull  # 1
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
            if last[k] is None:
                h_k[k] = w_server - w  # 2
            else:
                h_k[k] = h_k[k] / (t - last[k]) + (w_server - w)
            last[k] = t  # 3
        wbar_new = sum(local[k] for k in cohort) / len(cohort)  # 4
        h = beta_a * (wbar - wbar_new)  # 5
        w_server, wbar = wbar_new - h, wbar_new  # 6
        trace.server.append(w_server)
        trace.local.append(local)
        trace.wbar.append(wbar)
        trace.h.append(h)
        trace.h_k.append(list(h_k))
    return trace
