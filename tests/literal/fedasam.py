"""FedASAM: FedSAM with the adaptive perturbation of ASAM.

Kwon et al., ASAM: Adaptive Sharpness-Aware Minimization, ICML 2021; Caldarola et al., ECCV 2022,
Algorithm 1.

    client k of C^t, from w^t, both gradients on the same batch:
 1      T_j = |w_j| + eta_a  where coordinate j belongs to a weight,  1  elsewhere (biases)
 2      eps = rho T^2 g_k(w) / ||T g_k(w)||             T elementwise, the norm over the whole vector
 3      u = g_k(w + eps)
    server:
 4      w^{t+1} = w^t - eta_g sum_k p_k (w^t - w_k)

``variant="elementwise"``: line 1 is ``T_j = |w_j|`` for every coordinate, without eta_a.
"""

from __future__ import annotations

import numpy as np

from literal.problem import Array, Plan, Problem, Trace, local_step, weights


def run(
    problem: Problem,
    plan: Plan,
    *,
    rho: float,
    eta_a: float = 0.0,
    is_weight: Array | None = None,
    variant: str = "paper",
    weighting: str = "sized",
) -> Trace:
    """Trace: server, local, eps and u (round, client, step).

    ``is_weight``: a mask over the coordinates; not given, all are weights.
    """
    if variant not in ("paper", "elementwise"):
        raise ValueError(f"variant is 'paper' or 'elementwise', not {variant!r}")
    mask = (
        np.ones(problem.dim, dtype=bool) if is_weight is None else np.asarray(is_weight, dtype=bool)
    )
    w_server = problem.w0
    trace = Trace(server=[], local=[], eps=[], u=[])
    for t in range(plan.rounds):
        local, delta = {}, np.zeros(problem.dim)
        trace.eps.append({k: [] for k in plan.cohorts[t]})
        trace.u.append({k: [] for k in plan.cohorts[t]})
        p = weights(problem, plan.cohorts[t], weighting)
        for k in plan.cohorts[t]:
            w, m = w_server, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                g = problem.gradient(k, w, batch)
                T = (
                    np.abs(w)
                    if variant == "elementwise"
                    else np.where(mask, np.abs(w) + eta_a, 1.0)
                )  # 1
                eps = rho * T**2 * g / (np.linalg.norm(T * g) + 1e-12)  # 2
                u = problem.gradient(k, w + eps, batch)  # 3
                w, m = local_step(w, m, u, plan.lr[t], plan)
                trace.eps[t][k].append(eps)
                trace.u[t][k].append(u)
            local[k] = w
            delta = delta + p[k] * (w_server - w)
        w_server = w_server - plan.server_lr * delta  # 4
        trace.server.append(w_server)
        trace.local.append(local)
    return trace
