"""FedBN, SiLoBN and FedAvg on a network with batch normalisation.

Li et al., FedBN: Federated Learning on Non-IID Features via Local Batch Normalization, ICLR 2021.
Andreux et al., Siloed Federated Learning for Multi-Centric Histopathology Datasets, 2020 (SiLoBN).

The network: a = W1 x + b1, s = gamma (a - mean a) / sqrt(var a + 1e-5) + beta over the batch,
scores = W2 tanh(s) + b2. Running statistics: r <- 0.9 r + 0.1 (mean a, var a), the variance divided
by n - 1.

    private: "fedbn" gamma, beta and the running statistics; "silobn" the statistics; "fedavg" nothing
    client k of C^t receives w^t and r^t:
 1      its private part is its own of the last request; before the first, the server's
 2      local SGD in training mode
 3      it keeps its private part
    server:
 4      w^{t+1} = w^t - eta_g sum_{C^t} p_k (w^t - w_k),  r^{t+1} = sum_{C^t} p_k r_k;  the private part stays
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from literal.network import Array, Examples, cut, joined, slope
from literal.problem import Plan, Trace, local_step, weights


def run(
    data: Examples, plan: Plan, *, shapes: Sequence[tuple[int, ...]], r0: Array, private: str
) -> Trace:
    """Trace: server, statistics, local and local_statistics (round, client: those that were
    visited).

    ``shapes``: of W1, b1, gamma, beta, W2, b2; ``r0``: means and variances before round 0.
    """
    sizes = [int(np.prod(shape)) for shape in shapes]
    own_w = np.zeros(sum(sizes), dtype=bool)
    if private == "fedbn":
        own_w[sum(sizes[:2]) : sum(sizes[:4])] = True
    own_r = private in ("fedbn", "silobn")
    w_server, r_server = data.w0, r0
    kept: dict[int, tuple[Array, Array]] = {}
    trace = Trace(server=[], statistics=[], local=[], local_statistics=[])
    for t in range(plan.rounds):
        cohort, local, stats = plan.cohorts[t], {}, {}
        for k in cohort:
            w, r = w_server.copy(), r_server
            if k in kept:  # 1
                w[own_w] = kept[k][0][own_w]
                r = kept[k][1] if own_r else r_server
            m = np.zeros_like(w)
            for places in plan.orders[t][k]:  # 2
                u, r = gradient(w, shapes, *data.batch(k, places), r)
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k], stats[k] = w, r
            kept[k] = w, r  # 3
        p = weights(data, cohort, "sized")
        step = plan.server_lr * sum(p[k] * (w_server - local[k]) for k in cohort)
        w_server = np.where(own_w, w_server, w_server - step)  # 4
        r_server = r_server if own_r else sum(p[k] * stats[k] for k in cohort)
        trace.server.append(w_server)
        trace.statistics.append(r_server)
        trace.local.append(local)
        trace.local_statistics.append(stats)
    return trace


def gradient(
    w: Array, shapes: Sequence[tuple[int, ...]], x: Array, y: Array, r: Array
) -> tuple[Array, Array]:
    """The gradient of the mean loss, and the running statistics after this batch."""
    W1, b1, gamma, beta, W2, b2 = cut(w, shapes)
    n = len(x)
    a = x @ W1.T + b1
    mean, var = a.mean(0), a.var(0)
    std = np.sqrt(var + 1e-5)
    hat = (a - mean) / std
    h = np.tanh(gamma * hat + beta)
    d2 = slope(h @ W2.T + b2, y)
    ds = (d2 @ W2) * (1 - h**2)
    dhat = ds * gamma
    da = (n * dhat - dhat.sum(0) - hat * (dhat * hat).sum(0)) / (n * std)
    parts = [da.T @ x, da.sum(0), (ds * hat).sum(0), ds.sum(0), d2.T @ h, d2.sum(0)]
    return joined(parts), 0.9 * r + 0.1 * np.concatenate([mean, var * n / (n - 1)])
