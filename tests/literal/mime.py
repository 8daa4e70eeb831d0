"""Mime and MimeLite with SGD and momentum.

Karimireddy et al., Breaking the Centralized Barrier for Cross-Device Federated Learning, NeurIPS
2021, without dampening as in FedJAX.

    m^0 = 0
    exchange 1, clients of C^t:
 1      c = sum_k p_k grad f_k(w^t)                     over the whole data of each
    client k of C^t, from w^t:
 2      Mime      ghat = g_k(w; B) - g_k(w^t; B) + c    the same batch in both
        MimeLite  ghat = g_k(w; B)
 3      u = ghat + b m^t
    server:
 4      w^{t+1} = w^t - eta_g sum_k p_k (w^t - w_k)
 5      m^{t+1} = c + b m^t

Mime-SGD is b = 0. The paper dampens: ``(1 - b) ghat + b m`` and ``(1 - b) c + b m``
(``dampening=b``).
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_step, weights


def run(
    problem: Problem,
    plan: Plan,
    *,
    b: float = 0.0,
    lite: bool = False,
    dampening: float = 0.0,
    weighting: str = "sized",
) -> Trace:
    """Trace: server, local, c, m."""
    w_server, momentum = problem.w0, np.zeros(problem.dim)
    trace = Trace(server=[], local=[], c=[], m=[])
    for t in range(plan.rounds):
        cohort, local = plan.cohorts[t], {}
        p = weights(problem, cohort, weighting)
        c = sum(p[k] * problem.full_gradient(k, w_server) for k in cohort)  # 1
        for k in cohort:
            w, m = w_server, np.zeros(problem.dim)
            for batch in plan.orders[t][k]:
                ghat = problem.gradient(k, w, batch)  # 2
                if not lite:
                    ghat = ghat - problem.gradient(k, w_server, batch) + c
                u = (1 - dampening) * ghat + b * momentum  # 3
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
        w_server = w_server - plan.server_lr * sum(
            p[k] * (w_server - local[k]) for k in cohort
        )  # 4
        momentum = (1 - dampening) * c + b * momentum  # 5
        trace.server.append(w_server)
        trace.local.append(local)
        trace.c.append(c)
        trace.m.append(momentum)
    return trace
