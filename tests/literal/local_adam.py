"""FedAvg whose clients step with Adam or AdamW.

Kingma and Ba, Adam, ICLR 2015; Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR
2019.

    client k of C^t receives w^t (state "server": and m, v, n):
 1      m = v = 0, n = 0           "reset"; "client": its own of its last request; "server": received
 2      u = g_k(w), clipped, plus wd * w
 3      n <- n + 1;  m <- b1 m + (1 - b1) u;  v <- b2 v + (1 - b2) u^2
 4      w <- w - eta_l (mhat / (sqrt(vhat) + eps) + decay w),  mhat = m / (1 - b1^n), vhat likewise
    server:
 5      w^{t+1} = w^t - eta_g sum_k p_k (w^t - w_k)
 6      state "server": m, v = sum_k p_k (mhat_k, vhat_k);  n = infinity from now on
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, weights


def run(
    problem: Problem,
    plan: Plan,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    decay: float = 0.0,
    state: str = "reset",
    weighting: str = "sized",
) -> Trace:
    """Trace: server, local, m (of the server after each round, for state "server")."""
    zero = (np.zeros(problem.dim), np.zeros(problem.dim), 0.0)
    own = [zero] * problem.clients
    common = zero
    w_server = problem.w0
    trace = Trace(server=[], local=[], m=[], kept=[])
    for t in range(plan.rounds):
        local, moments = {}, {}
        p = weights(problem, plan.cohorts[t], weighting)
        for k in plan.cohorts[t]:
            w = w_server
            m, v, n = {"reset": zero, "client": own[k], "server": common}[state]  # 1
            for batch in plan.orders[t][k]:
                u = problem.gradient(k, w, batch)
                if plan.clip is not None and np.linalg.norm(u) > plan.clip:
                    u = u * (plan.clip / np.linalg.norm(u))
                u = u + plan.wd * w  # 2
                n = n + 1
                m = b1 * m + (1 - b1) * u
                v = b2 * v + (1 - b2) * u * u  # 3
                mhat, vhat = m / (1 - b1**n), v / (1 - b2**n)
                w = w - plan.lr[t] * (mhat / (np.sqrt(vhat) + eps) + decay * w)  # 4
            local[k], moments[k] = w, (mhat, vhat)
            own[k] = (m, v, n)
        w_server = w_server - plan.server_lr * sum(
            p[k] * (w_server - local[k]) for k in plan.cohorts[t]
        )  # 5
        if state == "server":
            m, v = (sum(p[k] * moments[k][i] for k in plan.cohorts[t]) for i in range(2))
            common = (m, v, np.inf)  # 6
        trace.server.append(w_server)
        trace.local.append(local)
        trace.m.append(common[0])
        trace.kept.append([one[1] for one in own])
    return trace
