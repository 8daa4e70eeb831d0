"""FedWMSAM.

Li et al., A Fast and Flat Federated Learning Method via Weighted Momentum and Sharpness-Aware
Minimization, NeurIPS 2025, Algorithm 1 with the signs and divisions of the released code.

    D = c = c_k = 0, a = a_0; K = all clients
    client k of C^t, tau_k steps from w^t:
 1      D_k = D + a/(1-a) (c - c_k)
 2      step b: d = (w^t + b D_k) - w;  eps = rho d / ||d||
 3              u = a g_k(w + eps) + (1 - a) D_k
 4      c_k' = c_k - c + Delta_k / (tau_k eta_l)
 5      s_k = 1 + cos(-Delta_k, D), with the old D;  0 if D = 0
    server:
 6      w^{t+1} = w^t - eta_g (1/S) sum Delta_k
 7      D = (1/S) sum Delta_k / (tau eta_l),  tau: mean steps;   c <- c + (1/K) sum (c_k' - c_k)
 8      a <- (1 - lam) a + lam clip((1/S) sum s_k, 0.1, 0.9)

``flavour="repo"``: eps = -rho d_j / (|d_0| + ... + |d_{n-1}| + 1e-7) for every coordinate of tensor
j of n, whose sizes are ``tensors``; D is multiplied by eta_l^t / eta_l^{t-1} before round t.
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_step


def run(
    problem: Problem,
    plan: Plan,
    *,
    rho: float,
    a: float,
    lam: float,
    flavour: str = "paper",
    tensors: tuple[int, ...] = (),
) -> Trace:
    """Trace: server, local, D, c, c_k (round, client), a (after each round)."""
    K, zero = problem.clients, np.zeros(problem.dim)
    w_server, D, c = problem.w0, zero, zero
    c_k = [zero] * K
    trace = Trace(server=[], local=[], D=[], c=[], c_k=[], a=[])
    for t in range(plan.rounds):
        cohort, local, dc, aligned = plan.cohorts[t], {}, {}, {}
        if flavour == "repo" and t > 0:
            D = D * plan.lr[t] / plan.lr[t - 1]
        for k in cohort:
            D_k = D + a / (1 - a) * (c - c_k[k])  # 1
            w, m = w_server, zero
            for b, batch in enumerate(plan.orders[t][k]):
                d = (w_server + b * D_k) - w  # 2
                eps = rho * d / (np.linalg.norm(d) + 1e-12)
                if flavour == "repo":
                    n = sum(abs(d[j]) for j in range(len(tensors))) + 1e-7
                    eps = np.array(
                        [-rho * d[j] / n for j, size in enumerate(tensors) for _ in range(size)]
                    )
                u = a * problem.gradient(k, w + eps, batch) + (1 - a) * D_k  # 3
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
            delta = w_server - w
            dc[k] = delta / (plan.steps(t, k) * plan.lr[t]) - c  # 4
            lengths = np.linalg.norm(delta) * np.linalg.norm(D)
            aligned[k] = 1 - delta @ D / lengths if D.any() else 0.0  # 5
        for k in cohort:
            c_k[k] = c_k[k] + dc[k]
        mean = sum(w_server - local[k] for k in cohort) / len(cohort)
        tau = sum(plan.steps(t, k) for k in cohort) / len(cohort)
        w_server = w_server - plan.server_lr * mean  # 6
        D = mean / (tau * plan.lr[t])  # 7
        c = c + sum(dc[k] for k in cohort) / K
        s = sum(aligned[k] for k in cohort) / len(cohort)
        a = (1 - lam) * a + lam * min(max(s, 0.1), 0.9)  # 8
        trace.server.append(w_server)
        trace.local.append(local)
        trace.D.append(D)
        trace.c.append(c)
        trace.c_k.append(list(c_k))
        trace.a.append(a)
    return trace
