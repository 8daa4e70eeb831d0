"""FedLESAM, and its variants -S and -D.

Fan et al., Locally Estimated Global Perturbations are Better than Local Perturbations for Federated
Sharpness-aware Minimization, ICML 2024.

    w_old_k = the global model client k received at its previous request
    client k of C^t, from w^t:
 1      eps_k = rho (w_old_k - w^t) / ||w_old_k - w^t||     constant over the request; 0 on the first one
 2      u = g_k(w + eps_k)
 3      w_old_k <- w^t
    server:
 4      w^{t+1} = w^t - eta_g (1/S) sum_{C^t} (w^t - w_k)

``flavour="repo"`` (the released code): d = w^{t-1} - w^t for every client, 0 in round 0; coordinate
i of tensor j of the network gets eps_i = rho d_j / (|d_0| + ... + |d_{n-1}| + 1e-7), n tensors. The
sizes of the tensors are ``tensors``.
``variant="scaffold"`` (-S): u also has - c_k + c, and
 5      c_k^+ = c_k - c + (w^t - w_k) / (tau_k eta_l);  c <- c + (1/K) sum_{C^t} (c_k^+ - c_k)
``variant="feddyn"`` (-D): u also has - sigma_k + alpha (w - w^t), and instead of line 4
 6      sigma_k <- sigma_k - alpha (w_k - w^t);  sigma <- sigma - (alpha/K) sum_{C^t} (w_k - w^t)
 7      w^{t+1} = (1/S) sum_{C^t} w_k - sigma / alpha
"""

from __future__ import annotations

import numpy as np

from literal.problem import Array, Plan, Problem, Trace, local_step


def run(
    problem: Problem,
    plan: Plan,
    *,
    rho: float,
    variant: str = "plain",
    alpha: float | None = None,
    flavour: str = "paper",
    tensors: tuple[int, ...] = (),
) -> Trace:
    """Trace: server, local, eps (round, client), c, c_k, sigma, sigma_k (0 where the variant has
    none)."""
    if variant not in ("plain", "scaffold", "feddyn"):
        raise ValueError(f"variant is 'plain', 'scaffold' or 'feddyn', not {variant!r}")
    K = problem.clients
    w_server = problem.w0
    c, sigma = np.zeros(problem.dim), np.zeros(problem.dim)
    c_k = [np.zeros(problem.dim) for _ in range(K)]
    sigma_k = [np.zeros(problem.dim) for _ in range(K)]
    w_old: list[Array | None] = [None] * K
    before = w_server
    trace = Trace(server=[], local=[], eps=[], c=[], c_k=[], sigma=[], sigma_k=[])
    for t in range(plan.rounds):
        cohort, local, dc, perturbations = plan.cohorts[t], {}, {}, {}
        for k in cohort:
            eps = np.zeros(problem.dim)  # 1
            if w_old[k] is not None:
                back = w_old[k] - w_server
                eps = rho * back / (np.linalg.norm(back) + 1e-12)
            if flavour == "repo":
                d = before - w_server
                length = sum(abs(d[j]) for j in range(len(tensors))) + 1e-7
                eps = np.array(
                    [rho * d[j] / length for j, n in enumerate(tensors) for _ in range(n)]
                )
            perturbations[k] = eps
            w, m = w_server, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                u = problem.gradient(k, w + eps, batch)  # 2
                if variant == "scaffold":
                    u = u - c_k[k] + c
                elif variant == "feddyn":
                    u = u - sigma_k[k] + alpha * (w - w_server)
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
            w_old[k] = w_server  # 3
            if variant == "scaffold":
                c_plus = c_k[k] - c + (w_server - w) / (plan.steps(t, k) * plan.lr[t])  # 5
                dc[k] = c_plus - c_k[k]
                c_k[k] = c_plus
            elif variant == "feddyn":
                sigma_k[k] = sigma_k[k] - alpha * (w - w_server)  # 6
        before = w_server
        if variant == "scaffold":
            c = c + sum(dc[k] for k in cohort) / K  # 5
        if variant == "feddyn":
            sigma = sigma - alpha / K * sum(local[k] - w_server for k in cohort)  # 6
            w_server = sum(local[k] for k in cohort) / len(cohort) - sigma / alpha  # 7
        else:
            w_server = w_server - plan.server_lr * sum(w_server - local[k] for k in cohort) / len(
                cohort
            )  # 4
        trace.server.append(w_server)
        trace.local.append(local)
        trace.eps.append(perturbations)
        trace.c.append(c)
        trace.c_k.append(list(c_k))
        trace.sigma.append(sigma)
        trace.sigma_k.append(list(sigma_k))
    return trace
