"""LADD's round, as its release does it. Shenaj et al., Learning Across Domains and Devices, WACV
2023.

The network, at each pixel by itself: a = tanh(W1 x + b1), z = W2 a + b2; f_0 is where it starts.

    client k of C^t, of cluster c, from (Phi, theta_c), with frozen g_c and f_0:
 1      yh = argmax g_c(x), conf its probability; in each image and class of n pixels a pixel counts if conf > 0.9 or
        it is one of the floor(0.66 n) most confident;  "fda": if conf >= min(0.9, entry round(0.66 n) of the n sorted
        ones of its class over all the client's images)
 2      L = 1/P sum over counted pixels of CE(z, yh)
          + kd 1/P sum over pixels where f_0's own label counts of -1/C sum_j softmax(z_0 / 2)_j log softmax(z)_j
    server:
 3      Phi <- sum over C^t of N_k Phi_k / sum of N_k
 4      theta_c <- the same over C^t within cluster c; a cluster without participants keeps its theta_c
 5      every omega rounds (t completed): t < t_start: g_c <- w_c;  else g_c <- (n g_c + w_c)/(n + 1), n <- n + 1
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from literal.network import Array, cut, joined, softmax
from literal.problem import Plan, Trace, local_step

SURE, SHARE = 0.9, 0.66


def run(
    x: list[Array],
    w0: Array,
    plan: Plan,
    groups: list[list[int]],
    *,
    shapes: Sequence[tuple[int, ...]],
    common: Array,
    kd: float,
    omega: int,
    t_start: float,
    rule: str = "ladd",
    mask: bool = True,
) -> Trace:
    """``x``: images (N_k, channels, h, w) of each client; ``common``: which coordinates are in Phi.

    Trace: models (round, cluster), teachers (likewise), counted (pixels in each step that count, in
    order).
    """
    home = {k: c for c, group in enumerate(groups) for k in group}
    w, g, n = [w0.copy() for _ in groups], [w0.copy() for _ in groups], 0
    trace = Trace(models=[], teachers=[], counted=[])
    for t in range(plan.rounds):
        ended = {}
        for k in plan.cohorts[t]:
            c = home[k]
            limits = [
                thresholds(x[k], teacher, shapes) if rule == "fda" else None
                for teacher in (g[c], w0)
            ]
            v, m = w[c], np.zeros_like(w0)
            for places in plan.orders[t][k]:
                batch = x[k][list(places)]
                yh, counts = labels(scores(g[c], shapes, batch), limits[0])  # 1
                z0 = scores(w0, shapes, batch)
                known = labels(z0, limits[1])[1] if mask else np.ones_like(counts)
                trace.counted.append(int(counts.sum()))
                u = gradient(v, shapes, batch, yh, counts, z0, known, kd)  # 2
                v, m = local_step(v, m, u, plan.lr[t], plan)
            ended[k] = v
        size = {k: len(x[k]) for k in ended}
        for c in range(len(groups)):
            mine = [k for k in ended if home[k] == c]
            if mine:
                own = sum(size[k] * ended[k] for k in mine) / sum(size[k] for k in mine)
                w[c] = np.where(common, w[c], own)  # 4
        phi = sum(size[k] * ended[k] for k in ended) / sum(size.values())
        w = [np.where(common, phi, own) for own in w]  # 3
        if (t + 1) % omega == 0 and t + 1 < t_start:
            g = [own.copy() for own in w]  # 5
        elif (t + 1) % omega == 0:
            g, n = [(n * old + own) / (n + 1) for old, own in zip(g, w, strict=True)], n + 1
        trace.models.append([own.copy() for own in w])
        trace.teachers.append([own.copy() for own in g])
    return trace


def scores(w: Array, shapes: Sequence[tuple[int, ...]], x: Array) -> Array:
    """z at each pixel: (images, h, w, classes)."""
    W1, b1, W2, b2 = cut(w, shapes)
    return np.tanh(np.moveaxis(x, 1, -1) @ W1.T + b1) @ W2.T + b2


def labels(z: Array, limits: dict[int, float] | None) -> tuple[Array, Array]:
    """The most likely class of each pixel, and whether it counts."""
    p = softmax(z)
    yh, conf = p.argmax(-1), p.max(-1)
    counts = np.zeros(yh.shape, dtype=bool)
    for i in range(len(yh)):
        for c in range(z.shape[-1]):
            mine = [
                (r, s) for r in range(yh.shape[1]) for s in range(yh.shape[2]) if yh[i, r, s] == c
            ]
            ranked = sorted(mine, key=lambda at: -conf[i][at])
            best = ranked[: math.floor(SHARE * len(mine))]
            for at in mine:
                counts[i][at] = (
                    conf[i][at] > SURE or at in best if limits is None else conf[i][at] >= limits[c]
                )
    return yh, counts


def thresholds(x: Array, w: Array, shapes: Sequence[tuple[int, ...]]) -> dict[int, float]:
    """FDA's least confidence of each class over all images of a client."""
    p = softmax(scores(w, shapes, x))
    yh, conf, found = p.argmax(-1), p.max(-1), {}
    for c in range(p.shape[-1]):
        ranked = sorted(conf[yh == c].tolist())
        found[c] = (
            min(SURE, ranked[min(round(SHARE * len(ranked)), len(ranked) - 1)]) if ranked else SURE
        )
    return found


def gradient(
    w: Array,
    shapes: Sequence[tuple[int, ...]],
    x: Array,
    yh: Array,
    counts: Array,
    z0: Array,
    known: Array,
    kd: float,
) -> Array:
    """The gradient of line 2."""
    _, _, W2, _ = cut(w, shapes)
    inputs = np.moveaxis(x, 1, -1)
    a = np.tanh(inputs @ cut(w, shapes)[0].T + cut(w, shapes)[1])
    p = softmax(a @ W2.T + cut(w, shapes)[3])
    classes = p.shape[-1]
    d = counts[..., None] * (p - np.eye(classes)[yh]) / yh.size
    d = d + kd * known[..., None] * (p - softmax(z0 / 2)) / classes / yh.size
    e = (d @ W2) * (1 - a**2)
    flat = [one.reshape(-1, one.shape[-1]) for one in (inputs, a, d, e)]
    return joined([flat[3].T @ flat[0], flat[3].sum(0), flat[2].T @ flat[1], flat[2].sum(0)])
