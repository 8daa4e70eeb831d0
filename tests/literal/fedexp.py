"""FedExP.

Jhunjhunwala et al., FedExP: Speeding Up Federated Averaging via Extrapolation, ICLR 2023,
Algorithm 1.

    client k of C^t: plain steps from w^t;  Delta_k = w^t - w_k
    server:
 1      Delta = sum_k p_k Delta_k
 2      eta_g = max(1, sum_k p_k ||Delta_k||^2 / (2 (||Delta||^2 + eps)))
 3      w^{t+1} = w^t - eta_g Delta
 4      evaluated: (w^t + w^{t+1}) / 2, and w^1 after the first round

``flavour="repo"``: eps times S (the clients of the round) times (eta_l^t / eta_l^0)^2 in line 2.
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_train, weights


def run(
    problem: Problem, plan: Plan, *, eps: float, flavour: str = "paper", weighting: str = "sized"
) -> Trace:
    """Trace: server, eta, evaluated."""
    w = problem.w0
    trace = Trace(server=[], eta=[], evaluated=[])
    for t in range(plan.rounds):
        cohort = plan.cohorts[t]
        p = weights(problem, cohort, weighting)
        deltas = {k: w - local_train(problem, plan, t, k, w) for k in cohort}
        delta = sum(p[k] * deltas[k] for k in cohort)  # 1
        squares = sum(p[k] * deltas[k] @ deltas[k] for k in cohort)
        small = eps if flavour == "paper" else eps * len(cohort) * (plan.lr[t] / plan.lr[0]) ** 2
        eta = max(1.0, squares / (2 * (delta @ delta + small)))  # 2
        w = w - eta * delta  # 3
        trace.server.append(w)
        trace.eta.append(eta)
        trace.evaluated.append(np.mean(trace.server[-2:], axis=0))  # 4
    return trace
