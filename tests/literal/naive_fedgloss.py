"""NaiveFedGloSS: SAM on the server with the true perturbation, at the price of a second exchange.

Caldarola et al., Beyond Local Sharpness: Communication-Efficient Global Sharpness-aware
Minimization for Federated Learning, CVPR 2025.

    exchange 1, clients of C^t from w^t:
 1      w_k <- local run;  Delta = sum_k p_k (w^t - w_k)
 2      eps = rho_s Delta / ||Delta||;  wt = w^t + eps
    exchange 2, the same clients from wt:
 3      w_k <- local run;  Dt = sum_k p_k (wt - w_k)
 4      w^{t+1} = w^t - eta_g Dt
    local run from a start s, base gradient q = g_k(w), or SAM's or ASAM's:
 5      u = q                                           without ADMM
 6      u = q - sigma_k + (w - s) / beta                with ADMM
    with ADMM, once a round, after exchange 2:
 7      sigma_k <- sigma_k - (w_k - wt) / beta
 8      sigma <- sigma - 1/(beta K) sum_{C^t} (w_k - wt)
 9      w^{t+1} = w^t - eta_g Dt - beta sigma

``dual_scale="repo"``: line 8 divides by ``beta K S``, as the authors' code does. ``beta=None``: no
ADMM.
"""

from __future__ import annotations

import numpy as np

from literal.problem import Array, Plan, Problem, Trace, local_step, weights


def run(
    problem: Problem,
    plan: Plan,
    *,
    rho_s: float,
    beta: float | None = None,
    local: str = "sgd",
    rho_l: float = 0.0,
    eta_a: float = 0.0,
    is_weight: Array | None = None,
    dual_scale: str = "paper",
    weighting: str = "sized",
) -> Trace:
    """Trace: server, eps, probe (Delta of exchange 1), delta (Dt), sent (wt), local (of exchange
    2), sigma, sigma_k."""
    K = problem.clients
    w_server = problem.w0
    sigma = np.zeros(problem.dim)
    sigma_k = [np.zeros(problem.dim) for _ in range(K)]
    trace = Trace(server=[], eps=[], probe=[], delta=[], sent=[], local=[], sigma=[], sigma_k=[])

    def local_train(t: int, k: int, start: Array) -> Array:
        w, m = start, np.zeros(problem.dim)
        for batch in plan.orders[t][k]:
            q = problem.gradient(k, w, batch)
            if local == "sam":
                q = problem.gradient(k, w + rho_l * q / (np.linalg.norm(q) + 1e-12), batch)
            elif local == "asam":
                T = np.abs(w) + eta_a
                if is_weight is not None:
                    T = np.where(is_weight, T, 1.0)
                q = problem.gradient(
                    k, w + rho_l * T**2 * q / (np.linalg.norm(T * q) + 1e-12), batch
                )
            elif local != "sgd":
                raise ValueError(f"local is 'sgd', 'sam' or 'asam', not {local!r}")
            u = q if beta is None else q - sigma_k[k] + (w - start) / beta  # 5, 6
            w, m = local_step(w, m, u, plan.lr[t], plan)
        return w

    for t in range(plan.rounds):
        cohort = plan.cohorts[t]
        p = weights(problem, cohort, weighting)
        probe = sum(p[k] * (w_server - local_train(t, k, w_server)) for k in cohort)  # 1
        norm = np.linalg.norm(probe)
        eps = rho_s * probe / norm if norm > 0 else np.zeros(problem.dim)  # 2
        wt = w_server + eps
        ends = {k: local_train(t, k, wt) for k in cohort}  # 3
        delta = sum(p[k] * (wt - ends[k]) for k in cohort)
        w_server = w_server - plan.server_lr * delta  # 4
        if beta is not None:
            scale = beta * K * (len(cohort) if dual_scale == "repo" else 1)
            for k in cohort:
                sigma_k[k] = sigma_k[k] - (ends[k] - wt) / beta  # 7
                sigma = sigma - (ends[k] - wt) / scale  # 8
            w_server = w_server - beta * sigma  # 9
        trace.server.append(w_server)
        trace.eps.append(eps)
        trace.probe.append(probe)
        trace.delta.append(delta)
        trace.sent.append(wt)
        trace.local.append(ends)
        trace.sigma.append(sigma)
        trace.sigma_k.append(list(sigma_k))
    return trace
