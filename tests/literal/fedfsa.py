"""FedFSA: MoFedSAM with a larger radius on the layers that move most.

Xing et al., Flexible Sharpness-Aware Personalized Federated Learning, AAAI 2025.

    D^0 = 0; Top_k empty before the first request; tau = steps per client (mean over C^t)
    client k of C^t receives w^t and D^t:
 1      eps_j = rho_j g_j / ||g||                       ||g|| over the whole model
        rho_j = rho_larger if the layer of j is in Top_k, else rho_default
 2      u = a g_k(w + eps) + (1 - a) D^t
 3      after the run: a score for every eligible layer; Top_k <- the C of largest score, for the next request
    server:
 4      Delta = (1/S) sum_{C^t} (w^t - w_k);  D^{t+1} = Delta / (tau eta_l)
 5      w^{t+1} = w^t - eta_g Delta

Score of a layer, between x = w^t and y = w_k there:
 6      "minmax_mse"  mean (mm(y) - mm(x))^2,   mm(x) = (x - min x) / (max x - min x)
        "mse"         mean (y - x)^2
 7      "local"       mean over the steps of the last epoch of |sum_j g_k(w + eps)_j eps_j|, j in the layer
A tensor that is constant, before or after, has minmax score 0.

Selection: "fsa" the C largest, "reverse" the C smallest that are not zero, "random" C drawn anew
after every request (given in ``drawn[t][k]``). Ties go to the lower index. The box of the paper has
the momentum uphill; the sign here is that of its code.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from literal.problem import Array, Plan, Problem, Trace, local_step


def run(
    problem: Problem,
    plan: Plan,
    *,
    rho_default: float,
    rho_larger: float,
    C: int,
    a: float = 0.1,
    score: str = "minmax_mse",
    selection: str = "fsa",
    layers: Sequence[Sequence[int]] | None = None,
    eligible: Sequence[int] | None = None,
    drawn: Sequence[dict[int, Sequence[int]]] | None = None,
) -> Trace:
    """Trace: server, local, D, scores (round, client: one per eligible layer), top (round, client:
    the chosen layers in order, none before the first request).

    ``layers``: the coordinates of every layer; not given, each coordinate is one. ``eligible``: the
    layers that may be chosen; not given, all.
    """
    if selection not in ("fsa", "reverse", "random"):
        raise ValueError(f"unknown selection {selection!r}")
    layers = [[j] for j in range(problem.dim)] if layers is None else layers
    eligible = list(range(len(layers))) if eligible is None else sorted(eligible)
    w_server, D = problem.w0, np.zeros(problem.dim)
    top: list[list[int]] = [[] for _ in range(problem.clients)]
    trace = Trace(server=[], local=[], D=[], scores=[], top=[])
    for t in range(plan.rounds):
        cohort, local, scores = plan.cohorts[t], {}, {}
        for k in cohort:
            radius = np.full(problem.dim, rho_default)
            for layer in top[k]:
                for j in layers[layer]:
                    radius[j] = rho_larger
            w, m = w_server, np.zeros(problem.dim)
            batches, effects = plan.orders[t][k], []
            epochs = sum(len(batch) for batch in batches) // problem.sizes[k]
            for step, batch in enumerate(batches):
                g = problem.gradient(k, w, batch)
                eps = radius * g / (np.linalg.norm(g) + 1e-12)  # 1
                perturbed = problem.gradient(k, w + eps, batch)
                if step >= len(batches) - len(batches) // epochs:  # 7
                    effects.append([abs(np.sum((perturbed * eps)[list(one)])) for one in layers])
                u = a * perturbed + (1 - a) * D  # 2
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
            if score == "local":
                values = [float(np.mean([effect[i] for effect in effects])) for i in eligible]
            else:
                values = [
                    _score(score, w_server[list(layers[i])], w[list(layers[i])]) for i in eligible
                ]
            scores[k] = values
            if selection == "fsa":  # 3
                order = sorted(range(len(eligible)), key=lambda i, v=values: (-v[i], i))
                top[k] = sorted(eligible[i] for i in order[:C])
            elif selection == "reverse":
                moved = [i for i in range(len(eligible)) if values[i] != 0]
                order = sorted(moved, key=lambda i, v=values: (v[i], i))
                top[k] = sorted(eligible[i] for i in order[:C])
            else:
                top[k] = sorted(drawn[t][k])
        delta = sum(w_server - local[k] for k in cohort) / len(cohort)  # 4
        tau = sum(plan.steps(t, k) for k in cohort) / len(cohort)
        D = delta / (tau * plan.lr[t])
        w_server = w_server - plan.server_lr * delta  # 5
        trace.server.append(w_server)
        trace.local.append(local)
        trace.D.append(D)
        trace.scores.append(scores)
        trace.top.append([list(chosen) for chosen in top])
    return trace


def _score(config: str, start: Array, end: Array) -> float:
    if config == "mse":
        return float(np.mean((end - start) ** 2))
    if config == "minmax_mse":
        if start.max() == start.min() or end.max() == end.min():
            return 0.0
        x = (start - start.min()) / (start.max() - start.min())
        y = (end - end.min()) / (end.max() - end.min())
        return float(np.mean((y - x) ** 2))  # 6
    raise ValueError(f"score is 'minmax_mse' or 'mse', not {config!r}")
