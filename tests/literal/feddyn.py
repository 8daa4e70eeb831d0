"""FedDyn. Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021, Algorithm 1.

    sigma = sigma_k = 0 at the start; K = all clients, S = clients of the round
    client k of C^t, from w^t:
 1      u = g_k(w) - sigma_k + alpha (w - w^t)
 2      sigma_k <- sigma_k - alpha (w_k - w^t)
    server:
 3      sigma <- sigma - (alpha/K) sum_{C^t} (w_k - w^t)
 4      wbar = (1/S) sum_{C^t} w_k
 5      w^{t+1} = wbar - sigma / alpha

With local SAM, ``g_k(w)`` in line 1 is taken at ``w + rho_l g_k(w) / ||g_k(w)||``; duals and the
proximal term stay at ``w``.

``scaled=True`` is the authors' code on unequal sizes: client k uses ``alpha_k = alpha mean(N) /
N_k`` in lines 1 and 2, and line 5 becomes ``w^{t+1} = wbar + mean over all K of h_k``, ``h_k =
-sigma_k / alpha_k``.

``squared=False`` is FL-SAM, where the penalty ``alpha/2 ||w - w^t||`` is not squared: in line 1
``w - w^t`` becomes ``(w - w^t) / (2 ||w - w^t||)``, and 0 where ``w = w^t``.

``alpha`` may be a function of the round: every line takes the value of round t.

Three models may be evaluated: the server's, ``active`` (wbar) and ``all``, the mean over all K of
the last model of every client (w^0 for those never seen), which the authors' code reports.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from literal.problem import Plan, Problem, Trace, local_step


def run(
    problem: Problem,
    plan: Plan,
    *,
    alpha: float | Callable[[int], float],
    rho_l: float = 0.0,
    scaled: bool = False,
    squared: bool = True,
) -> Trace:
    """Trace: server, active, all, sigma, sigma_k (round, client), local."""
    K = problem.clients
    w_server = problem.w0
    sigma = np.zeros(problem.dim)
    sigma_k = [np.zeros(problem.dim) for _ in range(K)]
    last = [problem.w0 for _ in range(K)]
    trace = Trace(server=[], active=[], all=[], sigma=[], sigma_k=[], local=[])
    for t in range(plan.rounds):
        cohort, local = plan.cohorts[t], {}
        alpha_t = alpha(t) if callable(alpha) else alpha
        alphas = [
            alpha_t * np.mean(problem.sizes) / problem.sizes[k] if scaled else alpha_t
            for k in range(K)
        ]
        for k in cohort:
            w, m = w_server, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                g = problem.gradient(k, w, batch)
                if rho_l:
                    eps = rho_l * g / (np.linalg.norm(g) + 1e-12)
                    g = problem.gradient(k, w + eps, batch)
                pull = w - w_server
                if not squared:
                    pull = pull / (2 * max(np.sqrt(pull @ pull), 1e-12))
                u = g - sigma_k[k] + alphas[k] * pull  # 1
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = last[k] = w
            sigma_k[k] = sigma_k[k] - alphas[k] * (w - w_server)  # 2
        for k in cohort:
            sigma = sigma - alphas[k] / K * (local[k] - w_server)  # 3
        wbar = sum(local[k] for k in cohort) / len(cohort)  # 4
        if scaled:
            w_server = wbar + sum(-sigma_k[k] / alphas[k] for k in range(K)) / K
        else:
            w_server = wbar - sigma / alpha_t  # 5
        trace.server.append(w_server)
        trace.active.append(wbar)
        trace.all.append(sum(last) / K)
        trace.sigma.append(sigma)
        trace.sigma_k.append(list(sigma_k))
        trace.local.append(local)
    return trace
