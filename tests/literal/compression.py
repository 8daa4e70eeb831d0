"""FedAvg with compressed updates and error feedback.

Karimireddy et al., Error Feedback Fixes SignSGD and other Gradient Compression Schemes, ICML 2019.

    client k of C^t, from w^t, with FedAvg's local steps to w_k:
 1      c = (w^t - w_k) + e_k                            e_k = 0 at first
 2      sends C(c)
 3      e_k <- c - C(c)                                  without feedback: e_k stays 0
    server:
 4      w^{t+1} = w^t - sum_k p_k C(c)
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from literal.problem import Array, Plan, Problem, Trace, local_train, weights


def bfloat16(c: Array) -> Array:
    """Round to 8 significant bits, ties to even, by way of float32."""
    rounded = []
    for value in np.float32(c):
        if value == 0:
            rounded.append(0.0)
            continue
        mantissa, exponent = math.frexp(float(value))
        rounded.append(math.ldexp(round(mantissa * 256), exponent - 8))  # round() is to even
    return np.array(rounded)


def int8(c: Array) -> Array:
    """Whole numbers of steps of a 127th of the largest; one block."""
    step = float(np.float32(np.abs(c).max() / 127))
    return np.array([round(value / step) * step for value in c])


def top_k(k: int) -> Callable[[Array], Array]:
    """The k largest magnitudes; the rest is 0."""

    def kept(c: Array) -> Array:
        largest = sorted(range(len(c)), key=lambda i: -abs(c[i]))[:k]
        return np.array([value if i in largest else 0.0 for i, value in enumerate(c)])

    return kept


def run(
    problem: Problem, plan: Plan, *, compress: Callable[[Array], Array], feedback: bool = True
) -> Trace:
    """Trace: server, and error (round, client)."""
    w_server = problem.w0
    trace = Trace(server=[], error=[])
    e = {k: np.zeros(problem.dim) for k in range(problem.clients)}
    for t in range(plan.rounds):
        delta = np.zeros(problem.dim)
        p = weights(problem, plan.cohorts[t], "sized")
        for k in plan.cohorts[t]:
            c = (w_server - local_train(problem, plan, t, k, w_server)) + e[k]  # 1
            sent = compress(c)  # 2
            e[k] = c - sent if feedback else e[k]  # 3
            delta = delta + p[k] * sent
        w_server = w_server - delta  # 4
        trace.server.append(w_server)
        trace.error.append(dict(e))
    return trace
