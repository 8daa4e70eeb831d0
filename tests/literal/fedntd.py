"""FedNTD.

Lee et al., Preservation of the Global Knowledge by Not-True Distillation in Federated Learning,
NeurIPS 2022, Equations 4 to 6, on FedAvg or, with ``rho``, on FedSAM.

The network: a = tanh(W1 x + b1), z = W2 a + b2.

    client k of C^t, from w^t; z_g: the scores of w^t; -y: without the true class
 1      loss = CE(z, y) + beta T^2 KL( softmax(z_g^{-y} / T) || softmax(z^{-y} / T) )
    server: FedAvg
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from literal.network import (
    Array,
    Examples,
    averaged,
    divergence_slope,
    hidden_layer,
    hidden_layer_gradient,
    slope,
    softmax,
)
from literal.problem import Plan, Trace


def term(scores: Array, teacher: Array, y: int, T: float) -> float:
    """The second part of line 1 for one example, without beta."""
    keep = [c for c in range(len(scores)) if c != y]
    p, q = softmax(scores[keep] / T), softmax(teacher[keep] / T)
    return float(T**2 * np.sum(q * (np.log(q) - np.log(p))))


def term_slope(scores: Array, teacher: Array, y: Array, T: float) -> Array:
    """Its gradient by the scores, mean over the batch."""
    found = np.zeros_like(scores)
    for i, label in enumerate(y):
        keep = [c for c in range(scores.shape[1]) if c != label]
        one = divergence_slope(teacher[i : i + 1, keep], scores[i : i + 1, keep], T)
        found[i, keep] = T**2 * one[0] / len(y)
    return found


def run(
    data: Examples,
    plan: Plan,
    *,
    shapes: Sequence[tuple[int, ...]],
    beta: float,
    T: float,
    rho: float = 0.0,
) -> Trace:
    """Trace: server, local. ``shapes``: of W1, b1, W2, b2."""

    def gradient(k: int, w: Array, sent: Array, places: Sequence[int]) -> Array:
        x, y = data.batch(k, places)
        z, z_g = hidden_layer(w, shapes, x)[1], hidden_layer(sent, shapes, x)[1]
        dz = slope(z, y) + beta * term_slope(z, z_g, y, T)  # 1
        return hidden_layer_gradient(w, shapes, x, dz)

    return averaged(data, plan, gradient, rho)
