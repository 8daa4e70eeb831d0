"""Clusters with a part of the model of their own, and clusters that meet (H-FL).

   for each round t, each client k of C^t, of cluster c:
1      w_k <- local SGD from (Phi, theta_c)
   server:
2      Phi <- sum over C^t of N_k Phi_k / sum over C^t of N_k
3      theta_c <- the same over C^t within cluster c; a cluster without participants keeps its theta_c

   H-FL, nothing in Phi, and every T rounds:
4      w = sum_c (N_c / N) w_c,   w_c <- w;   N_c: all examples of cluster c
"""

from __future__ import annotations

import numpy as np

from literal.problem import Plan, Problem, Trace, local_train


def run(
    problem: Problem,
    plan: Plan,
    groups: list[list[int]],
    *,
    common: np.ndarray | None = None,
    every: int | None = None,
) -> Trace:
    """``common``: which coordinates are in Phi, if any. Trace: models (round, cluster), mean (by
    N_c)."""
    common = np.zeros(problem.dim, dtype=bool) if common is None else common
    home = {k: c for c, group in enumerate(groups) for k in group}
    total = [sum(problem.sizes[k] for k in group) for group in groups]
    w = [problem.w0.copy() for _ in groups]
    trace = Trace(models=[], mean=[])
    for t in range(plan.rounds):
        ended = {k: local_train(problem, plan, t, k, w[home[k]]) for k in plan.cohorts[t]}  # 1
        for c in range(len(groups)):
            mine = [k for k in plan.cohorts[t] if home[k] == c]
            if mine:
                own = sum(problem.sizes[k] * ended[k] for k in mine) / sum(
                    problem.sizes[k] for k in mine
                )
                w[c] = np.where(common, w[c], own)  # 3
        phi = sum(problem.sizes[k] * ended[k] for k in ended) / sum(problem.sizes[k] for k in ended)
        w = [np.where(common, phi, own) for own in w]  # 2
        mean = sum(n * own for n, own in zip(total, w, strict=True)) / sum(total)
        if every is not None and (t + 1) % every == 0:
            w = [mean.copy() for _ in groups]  # 4
        trace.models.append([own.copy() for own in w])
        trace.mean.append(mean)
    return trace
