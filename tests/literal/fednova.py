"""FedNova.

Wang et al., Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization,
NeurIPS 2020: normalised averaging, with the accumulation vectors of its Section 4.

    client k of C^t, tau_k steps from w^t:  w^t - w_k = eta sum_i a_{k,i} g_{k,i}
 1      a_k:   SGD            (1, ..., 1)
               momentum b     a_{k,i} = 1 + b + ... + b^{tau_k - 1 - i}
               proximal mu    a_{k,i} = (1 - eta mu)^{tau_k - 1 - i}
 2      d_k = (w^t - w_k) / (eta ||a_k||_1)
    server:
 3      tau_eff = sum_k p_k ||a_k||_1          ("steps": sum_k p_k tau_k)
 4      w^{t+1} = w^t - tau_eff eta sum_k p_k d_k

``fall``: step i has the rate eta (1 - i / tau_k); then a_{k,i} = 1 - i / tau_k, without momentum and
proximal term.
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_step, weights


def vector(tau: int, lr: float, momentum: float, mu: float, fall: bool) -> list[float]:
    """a_k of line 1."""
    assert not (momentum and mu)
    assert not (fall and (momentum or mu))
    if fall:
        return [1 - i / tau for i in range(tau)]
    if mu:
        return [(1 - lr * mu) ** (tau - 1 - i) for i in range(tau)]
    return [sum(momentum**j for j in range(tau - i)) for i in range(tau)]


def run(
    problem: Problem,
    plan: Plan,
    *,
    mu: float = 0.0,
    tau_eff: str = "work",
    fall: bool = False,
    weighting: str = "sized",
) -> Trace:
    """Trace: server, local, norm (of a_k, by round and client)."""
    w_server = problem.w0
    trace = Trace(server=[], local=[], norm=[])
    for t in range(plan.rounds):
        cohort, lr, local, d, norm = plan.cohorts[t], plan.lr[t], {}, {}, {}
        p = weights(problem, cohort, weighting)
        for k in cohort:
            tau = plan.steps(t, k)
            w, m = w_server, np.zeros(problem.dim)
            for i, batch in enumerate(plan.orders[t][k]):
                u = problem.gradient(k, w, batch) + mu * (w - w_server)
                w, m = local_step(w, m, u, lr * (1 - i / tau) if fall else lr, plan)
            local[k] = w
            norm[k] = sum(vector(tau, lr, plan.momentum, mu, fall))  # 1
            d[k] = (w_server - w) / (lr * norm[k])  # 2
        steps = {k: norm[k] if tau_eff == "work" else plan.steps(t, k) for k in cohort}
        effective = sum(p[k] * steps[k] for k in cohort)  # 3
        mean = sum(p[k] * d[k] for k in cohort)
        w_server = w_server - plan.server_lr * effective * lr * mean  # 4
        trace.server.append(w_server)
        trace.local.append(local)
        trace.norm.append(norm)
    return trace
