"""FedAsync: the server mixes each client's model in as it comes.

Xie, Koyejo and Gupta, Asynchronous Federated Optimization, 2019.

    whenever a client is done another one is asked:
 1      it is sent w^v, the model of that moment, and trains:  x = local SGD from w^v
    server, for each x that comes:
 2      alpha_t = alpha(t) s(t - v)            alpha may change with the server's steps t
 3      w^{t+1} = (1 - alpha_t) w^t + alpha_t x
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from literal.problem import Plan, Problem, Trace, local_train


def run(
    problem: Problem,
    plan: Plan,
    *,
    calls: Sequence[int],
    durations: Sequence[float],
    concurrency: int,
    alpha: Callable[[int], float],
    s: Callable[[int], float],
) -> Trace:
    """``calls``: who is asked, in order; ``durations``: of a request to each client. Trace: server,
    stale."""
    models = [problem.w0]
    waiting = list(calls)
    ends: dict[int, float] = {}
    sent: dict[int, int] = {}
    now = 0.0
    trace = Trace(server=[], stale=[])
    while len(trace.server) < plan.rounds:
        while len(ends) < concurrency and waiting:
            k = waiting.pop(0)
            ends[k], sent[k] = now + durations[k], len(models) - 1
        now = min(ends.values())
        for k in [
            k for k, end in ends.items() if end == now
        ]:  # in the order in which they were asked
            del ends[k]
            v, t = sent[k], len(models) - 1
            x = local_train(problem, plan, v, k, models[v])  # 1
            alpha_t = alpha(t) * s(t - v)  # 2
            models.append((1 - alpha_t) * models[t] + alpha_t * x)  # 3
            trace.server.append(models[-1])
            trace.stale.append(t - v)
            if len(trace.server) == plan.rounds:
                break
    return trace
