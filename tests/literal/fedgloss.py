"""FedGloSS: SAM on the server with the perturbation of the last round, one exchange.

Caldarola et al., Beyond Local Sharpness: Communication-Efficient Global Sharpness-aware
Minimization for Federated Learning, CVPR 2025, Algorithm 1.

    server:
 1      eps = 0                                         in round 0, or if ||Dt_prev|| = 0
        eps = rho_s Dt_prev / ||Dt_prev||               otherwise
 2      wt = w^t + eps                                  the only model sent
    client k of C^t, from wt:
 3      q = g_k(w)                                      SGD
        q = g_k(w + rho_l g_k(w) / ||g_k(w)||)          SAM; ASAM with T = |w| + eta_a on weights, 1 on biases
 4      u = q                                           without ADMM
        u = q - sigma_k + (w - wt) / beta               with ADMM
 5      sigma_k <- sigma_k - (w_k - wt) / beta
    server:
 6      Dt = sum_k p_k (wt - w_k);  Dt_prev <- Dt       before the dual correction
 7      sigma <- sigma - 1/(beta K) sum_{C^t} (w_k - wt)
 8      w^{t+1} = w^t - eta_g Dt - beta sigma           from the UNperturbed w^t; without ADMM no sigma

Line 5 refers to wt (line 19 of the paper's box and its code; line 22 of the box prints w^t).
``dual_scale="repo"``: line 7 divides by ``beta K S``, as the authors' code does. ``beta=None``: no
ADMM.

Radius on the clients: ``rho_l(t) = rho_0 + (rho_l - rho_0) t / T_s`` for ``t <= T_s``, then
``rho_l``; with T_s = 0 it is constant. ``server_rho="repo"``: for ``1 <= t <= T_s`` the authors'
code has ``rho_l + (rho_s - rho_0) / T_s`` on the server, and ``rho_s`` afterwards.

Diagnostic (Eq. 6), t >= 1, by a discarded request of the same clients from w^t with the sigma_k of the round's
beginning and the same batches:
 9      delta_eps = || eps - rho_s Delta / ||Delta|| ||,   Delta = sum_k p_k (w^t - w_k)
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
    rho_0: float = 0.001,
    T_s: int = 0,
    eta_a: float = 0.0,
    is_weight: Array | None = None,
    dual_scale: str = "paper",
    server_rho: str = "constant",
    weighting: str = "sized",
) -> Trace:
    """Trace: server, eps, delta_eps (None in round 0), delta (Dt), sent (wt), local, sigma,
    sigma_k, rho_s, rho_l (the radii used)."""
    K = problem.clients
    w_server = problem.w0
    delta_prev: Array | None = None
    sigma = np.zeros(problem.dim)
    sigma_k = [np.zeros(problem.dim) for _ in range(K)]
    trace = Trace(
        server=[],
        eps=[],
        delta_eps=[],
        delta=[],
        sent=[],
        local=[],
        sigma=[],
        sigma_k=[],
        rho_s=[],
        rho_l=[],
    )

    def local_train(t: int, k: int, start: Array, radius: float) -> Array:
        w, m = start, np.zeros(problem.dim)
        for batch in plan.orders[t][k]:
            q = problem.gradient(k, w, batch)  # 3
            if local == "sam":
                q = problem.gradient(k, w + radius * q / (np.linalg.norm(q) + 1e-12), batch)
            elif local == "asam":
                T = np.abs(w) + eta_a
                if is_weight is not None:
                    T = np.where(is_weight, T, 1.0)
                q = problem.gradient(
                    k, w + radius * T**2 * q / (np.linalg.norm(T * q) + 1e-12), batch
                )
            elif local != "sgd":
                raise ValueError(f"local is 'sgd', 'sam' or 'asam', not {local!r}")
            u = q if beta is None else q - sigma_k[k] + (w - start) / beta  # 4
            w, m = local_step(w, m, u, plan.lr[t], plan)
        return w

    for t in range(plan.rounds):
        cohort = plan.cohorts[t]
        p = weights(problem, cohort, weighting)
        radius_l = rho_0 + (rho_l - rho_0) * t / T_s if t <= T_s and T_s > 0 else rho_l
        radius_s = rho_s
        if server_rho == "repo" and 1 <= t <= T_s:
            radius_s = rho_l + (rho_s - rho_0) / T_s

        eps = np.zeros(problem.dim)  # 1
        if delta_prev is not None and np.linalg.norm(delta_prev) > 0:
            eps = radius_s * delta_prev / np.linalg.norm(delta_prev)
        wt = w_server + eps  # 2

        delta_eps = None
        if t >= 1:
            true = sum(p[k] * (w_server - local_train(t, k, w_server, radius_l)) for k in cohort)
            delta_eps = float(np.linalg.norm(eps - radius_s * true / np.linalg.norm(true)))  # 9

        ends = {k: local_train(t, k, wt, radius_l) for k in cohort}
        delta = delta_prev = sum(p[k] * (wt - ends[k]) for k in cohort)  # 6
        w_server = w_server - plan.server_lr * delta  # 8
        if beta is not None:
            scale = beta * K * (len(cohort) if dual_scale == "repo" else 1)
            for k in cohort:
                sigma_k[k] = sigma_k[k] - (ends[k] - wt) / beta  # 5
                sigma = sigma - (ends[k] - wt) / scale  # 7
            w_server = w_server - beta * sigma  # 8
        trace.server.append(w_server)
        trace.eps.append(eps)
        trace.delta_eps.append(delta_eps)
        trace.delta.append(delta)
        trace.sent.append(wt)
        trace.local.append(ends)
        trace.sigma.append(sigma)
        trace.sigma_k.append(list(sigma_k))
        trace.rho_s.append(radius_s)
        trace.rho_l.append(radius_l)
    return trace
