"""FedBuff: a server that steps when K replies have come, whatever other clients still work.

Nguyen et al., Federated Learning with Buffered Asynchronous Aggregation, AISTATS 2022.

    whenever a client is done another one is asked:
 1      it is sent w^v, the model of that moment, and trains:  Delta_k = w^v - (local SGD from w^v)
    server, for each Delta_k that comes:
 2      Delta <- Delta + s(t - v) N_k Delta_k;   after K of them:
 3      w^{t+1} = w^t - Delta / (the sum of their N_k),   Delta <- 0

The paper counts clients alike: then N_k = 1. Of what comes at one moment all is taken before
anybody else is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from literal.problem import Plan, Problem, Trace, local_train


def run(
    problem: Problem,
    plan: Plan,
    *,
    calls: Sequence[int],
    durations: Sequence[float],
    concurrency: int,
    K: int,
    s: Callable[[int], float] = lambda staleness: 1.0,
    sizes: Sequence[int] | None = None,
) -> Trace:
    """``calls``: who is asked, in order; ``durations``: of a request to each client. Trace: server,
    stale."""
    sizes = problem.sizes if sizes is None else sizes
    models, now, asked = [problem.w0], 0.0, 0
    jobs: list[tuple[float, int, int, int]] = []  # end, number of the call, client, version
    trace = Trace(server=[], stale=[])
    total, mass, stale = np.zeros(problem.dim), 0, []
    while len(trace.server) < plan.rounds:
        while len(jobs) < concurrency and asked < len(calls):
            k = calls[asked]
            jobs.append((now + durations[k], asked, k, len(models) - 1))
            asked += 1
        now = min(job[0] for job in jobs)
        for job in sorted(job for job in jobs if job[0] == now):
            jobs.remove(job)
            _, _, k, v = job
            delta = models[v] - local_train(problem, plan, v, k, models[v])  # 1
            stale.append(len(models) - 1 - v)
            total = total + s(stale[-1]) * sizes[k] * delta  # 2
            mass += sizes[k]
            if len(stale) == K:
                models.append(models[-1] - total / mass)  # 3
                trace.server.append(models[-1])
                trace.stale.append(stale)
                total, mass, stale = np.zeros(problem.dim), 0, []
    trace.server, trace.stale = trace.server[: plan.rounds], trace.stale[: plan.rounds]
    return trace
