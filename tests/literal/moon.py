"""MOON.

Li et al., Model-Contrastive Federated Learning, CVPR 2021, Algorithm 1 and Equation 3, weights by
size.

The network: a = tanh(W1 x + b1), then, with a projection, h = relu(P1 a + q1), p = P2 h + q2, and
z = W2 p + b2; without one p = a.

    client k of C^t, from w^t; p_g: by w^t, p_o: by the client's last model
 1      loss = CE(z, y) - mu log( e^{cos(p, p_g)/T} / (e^{cos(p, p_g)/T} + e^{cos(p, p_o)/T}) )
        no second part in a client's first request
    server: FedAvg
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from literal.network import Array, Examples, cut, joined, slope
from literal.problem import Plan, Trace, local_step, weights


def cosine(p: Array, q: Array) -> tuple[float, Array]:
    """cos(p, q), and its gradient by p."""
    length, other = np.linalg.norm(p), np.linalg.norm(q)
    value = p @ q / (length * other)
    return float(value), q / (length * other) - value * p / length**2


def contrast(near: float, far: float, T: float) -> float:
    """The second part of line 1 for one example, without mu."""
    return float(-np.log(np.exp(near / T) / (np.exp(near / T) + np.exp(far / T))))


def features(
    w: Array, shapes: Sequence[tuple[int, ...]], x: Array
) -> tuple[Array, Array | None, Array]:
    """a, h and p."""
    W1, b1, *projection = cut(w, shapes)[:-2]
    a = np.tanh(x @ W1.T + b1)
    if not projection:
        return a, None, a
    P1, q1, P2, q2 = projection
    h = np.maximum(a @ P1.T + q1, 0)
    return a, h, h @ P2.T + q2


def gradient(
    w: Array, shapes: Sequence[tuple[int, ...]], x: Array, y: Array, dp_extra: Array | float
) -> Array:
    """The gradient by w, given that of the contrast by p."""
    tensors = cut(w, shapes)
    a, h, p = features(w, shapes, x)
    dz = slope(p @ tensors[-2].T + tensors[-1], y)
    dp = dz @ tensors[-2] + dp_extra
    middle = []
    da = dp
    if h is not None:
        P1, _, P2, _ = tensors[2:6]
        dh = (dp @ P2) * (h > 0)
        middle = [dh.T @ a, dh.sum(0), dp.T @ h, dp.sum(0)]
        da = dh @ P1
    d1 = da * (1 - a**2)
    return joined([d1.T @ x, d1.sum(0), *middle, dz.T @ p, dz.sum(0)])


def run(
    data: Examples, plan: Plan, *, shapes: Sequence[tuple[int, ...]], mu: float, T: float
) -> Trace:
    """Trace: server, local. ``shapes``: of W1, b1 (, P1, q1, P2, q2), W2, b2."""
    w_server = data.w0
    last: list[Array | None] = [None] * data.clients
    trace = Trace(server=[], local=[])
    for t in range(plan.rounds):
        cohort, local = plan.cohorts[t], {}
        for k in cohort:
            w, m = w_server, np.zeros_like(w_server)
            for places in plan.orders[t][k]:
                x, y = data.batch(k, places)
                extra: Array | float = 0.0
                if last[k] is not None:
                    p = features(w, shapes, x)[2]
                    p_g, p_o = features(w_server, shapes, x)[2], features(last[k], shapes, x)[2]
                    rows = []
                    for i in range(len(x)):
                        (near, by_near), (far, by_far) = cosine(p[i], p_g[i]), cosine(p[i], p_o[i])
                        share = 1 / (1 + np.exp((near - far) / T))
                        rows.append(mu * share * (by_far - by_near) / T / len(x))  # 1
                    extra = np.array(rows)
                w, m = local_step(w, m, gradient(w, shapes, x, y, extra), plan.lr[t], plan)
            local[k] = w
        for k in cohort:
            last[k] = local[k]
        shares = weights(data, cohort, "sized")
        w_server = w_server - plan.server_lr * sum(
            shares[k] * (w_server - local[k]) for k in cohort
        )
        trace.server.append(w_server)
        trace.local.append(local)
    return trace
