"""FedCR. Zhang et al., FedCR: Personalized Federated Learning Based on Across-Client Common
Representation with Conditional Mutual Information Regularization, ICML 2023.

The network: (mu, v) = W2 tanh(W1 x + b1) + b2, sigma = log(1 + e^v) + 1e-6, features z_s = mu +
sigma noise_s for s = 1..S, class probabilities P = mean_s softmax(W z_s + b). The encoder is W1,
b1, W2, b2, the head W, b.

    prior_c = N(0, 1) for every class c at the start
    client k of C^t receives the encoder and the priors; its head is its own (the server's at its first request):
 1      loss = mean over the batch of  -log P_y + beta_r KL(prior_y || N(mu, sigma^2))
 2      in its last epoch, for each class: precision_c = sum 1/sigma^2, weighted_c = sum mu/sigma^2 over its examples
    server:
 3      encoder: plain mean over C^t
 4      product of the clients' Gaussians: precision = sum_k precision_k, mean = sum_k weighted_k / precision
        prior <- mix prior + (1 - mix) product, mean and variance each by itself; a class nobody saw keeps its prior

The noise is given: ``noise[t][k]`` has an array (S, batch, features) for every step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from literal.network import Array, Examples, cut, joined, softmax
from literal.problem import Plan, Trace, local_step

Noise = Sequence[dict[int, Sequence[Array]]]


def run(
    data: Examples,
    plan: Plan,
    *,
    shapes: Sequence[tuple[int, ...]],
    noise: Noise,
    epochs: int,
    classes: int,
    beta_r: float,
    mix: float,
) -> Trace:
    """Trace: server, local, mean and variance (of the priors after each round).

    ``shapes``: of W1, b1, W2, b2, W, b.
    """
    features = shapes[2][0] // 2
    head = sum(int(np.prod(shape)) for shape in shapes[4:])
    w_server = data.w0
    heads: dict[int, Array] = {}
    mean, variance = np.zeros((classes, features)), np.ones((classes, features))
    trace = Trace(server=[], local=[], mean=[], variance=[])
    for t in range(plan.rounds):
        cohort, local = plan.cohorts[t], {}
        precision, weighted = np.zeros((classes, features)), np.zeros((classes, features))
        for k in cohort:
            w, m = w_server.copy(), np.zeros_like(w_server)
            w[-head:] = heads.get(k, w_server[-head:])
            last = plan.steps(t, k) - plan.steps(t, k) // epochs
            for step, places in enumerate(plan.orders[t][k]):
                x, y = data.batch(k, places)
                u, mu, sigma = gradient(
                    w, shapes, x, y, noise[t][k][step], mean, variance, beta_r
                )  # 1
                if step >= last:
                    for i, c in enumerate(y):  # 2
                        precision[c] += 1 / sigma[i] ** 2
                        weighted[c] += mu[i] / sigma[i] ** 2
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k], heads[k] = w, w[-head:]
        w_server = w_server.copy()
        w_server[:-head] = sum(local[k][:-head] for k in cohort) / len(cohort)  # 3
        mean, variance = mean.copy(), variance.copy()
        for c in range(classes):
            if precision[c].any():  # 4
                mean[c] = mix * mean[c] + (1 - mix) * weighted[c] / precision[c]
                variance[c] = mix * variance[c] + (1 - mix) / precision[c]
        trace.server.append(w_server)
        trace.local.append(local)
        trace.mean.append(mean)
        trace.variance.append(variance)
    return trace


def gradient(
    w: Array,
    shapes: Sequence[tuple[int, ...]],
    x: Array,
    y: Array,
    noise: Array,
    mean: Array,
    variance: Array,
    beta: float,
) -> tuple[Array, Array, Array]:
    """The gradient of line 1, and mu and sigma of each example."""
    W1, b1, W2, b2, W, b = cut(w, shapes)
    n, S = len(x), len(noise)
    h = np.tanh(x @ W1.T + b1)
    mu, v = np.split(h @ W2.T + b2, 2, axis=1)
    sigma = np.log1p(np.exp(v)) + 1e-6
    dmu, dsigma = np.zeros_like(mu), np.zeros_like(sigma)
    dW, db = np.zeros_like(W), np.zeros_like(b)
    z = [mu + sigma * noise[s] for s in range(S)]
    p = [softmax(z[s] @ W.T + b) for s in range(S)]
    P = sum(p) / S
    rows = np.arange(n)
    for s in range(S):
        one = np.zeros_like(P)
        one[rows, y] = 1
        share = p[s][rows, y] / (S * P[rows, y])
        d = -share[:, None] * (one - p[s]) / n
        dW, db = dW + d.T @ z[s], db + d.sum(0)
        dmu, dsigma = dmu + d @ W, dsigma + (d @ W) * noise[s]
    gap, wide = mu - mean[y], variance[y]
    dmu = dmu + beta * gap / sigma**2 / n
    dsigma = dsigma + beta * (1 / sigma - (wide + gap**2) / sigma**3) / n
    dv = dsigma / (1 + np.exp(-v))
    d2 = np.concatenate([dmu, dv], axis=1)
    d1 = (d2 @ W2) * (1 - h**2)
    return joined([d1.T @ x, d1.sum(0), d2.T @ h, d2.sum(0), dW, db]), mu, sigma
