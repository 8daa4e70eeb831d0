"""FedALA: what is received is blended into the client's own model, weight by weight.

Zhang et al., FedALA: Adaptive Local Aggregation for Personalized Federated Learning, AAAI 2023,
Algorithm 1.

    m = 1 at the start; wl is the client's last model; high are the coordinates of the last tensors
    client k of C^t receives w^t:
 1      first request: w_{k,0} = w^t
 2      else a share of its examples is drawn (given in ``drawn[t][k]``) and gone through in batches:
            wh = w^t, on high  wl + (w^t - wl) m
            m <- clip(m - eta_m g_k(wh) (w^t - wl), 0, 1)              on high
 3      second request: until the standard deviation of the last ten losses is below a threshold, one loss from the
        end of each pass, with more than ten passes and at most ``most``; later: one pass
 4      w_{k,0} = wh with the last m, then local SGD;  wl <- w_k
    server:
 5      w^{t+1} = w^t - eta_g sum_{C^t} p_k (w^t - w_k)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from literal.problem import Array, Plan, Problem, Trace, local_train, weights


def run(
    problem: Problem,
    plan: Plan,
    *,
    high: Sequence[int],
    drawn: Sequence[dict[int, Sequence[int]]],
    batch: int,
    eta_m: float = 1.0,
    threshold: float = 0.1,
    most: int = 50,
) -> Trace:
    """Trace: server, local, m (round, client), passes (round, client: how often the share was gone
    through)."""
    high = list(high)
    w_server = problem.w0
    wl: list[Array | None] = [None] * problem.clients
    mixing: list[Array | None] = [None] * problem.clients
    trace = Trace(server=[], local=[], m=[], passes=[])
    for t in range(plan.rounds):
        cohort, local, passes = plan.cohorts[t], {}, {}
        for k in cohort:
            start, passes[k] = w_server, 0
            if wl[k] is not None:  # 1
                second = mixing[k] is None
                m = np.ones(len(high)) if second else mixing[k]
                gap = w_server[high] - wl[k][high]
                losses: list[float] = []
                while True:
                    for first in range(0, len(drawn[t][k]), batch):  # 2
                        some = list(drawn[t][k][first : first + batch])
                        wh = w_server.copy()
                        wh[high] = wl[k][high] + gap * m
                        m = np.clip(m - eta_m * problem.gradient(k, wh, some)[high] * gap, 0, 1)
                    losses.append(_loss(problem, k, wh, some))
                    passes[k] += 1
                    settled = len(losses) > 10 and np.std(losses[-10:]) < threshold
                    if not second or settled or passes[k] == most:  # 3
                        break
                mixing[k] = m
                start = w_server.copy()
                start[high] = wl[k][high] + gap * m
            local[k] = wl[k] = local_train(problem, plan, t, k, start)  # 4
        p = weights(problem, cohort, "sized")
        w_server = w_server - plan.server_lr * sum(
            p[k] * (w_server - local[k]) for k in cohort
        )  # 5
        trace.server.append(w_server)
        trace.local.append(local)
        trace.m.append(list(mixing))
        trace.passes.append(passes)
    return trace


def _loss(problem: Problem, k: int, w: Array, batch: Sequence[int]) -> float:
    """The mean loss of a batch of client k."""
    total = 0.0
    for i in batch:
        d = w - problem.a[k][i]
        total += 0.5 * d @ problem.H[k][i] @ d
    return total / len(batch)
