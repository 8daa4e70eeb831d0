"""FedDecorr.

Shi et al., Towards Understanding and Mitigating Dimensional Collapse in Heterogeneous Federated
Learning, ICLR 2023, as in the authors' code or, with ``paper``, in the paper; on FedAvg or, with
``rho``, on FedSAM.

The network: a = tanh(W1 x + b1), z = W2 a + b2; the features of a batch of N are a (N x d).

    client k of C^t:
 1      F = (a - mean) / sqrt(var + 1e-8), by column; var: sum of squares over N - 1
 2      R = F^T F
 3      loss = CE(z, y) + coef (1/N) (1 / (d (d - 1))) sum_{i != j} R_ij^2       no term if N = 1
        paper:  CE(z, y) + coef (1 / d^2) sum_{i != j} K_ij^2,   K = R / (N - 1)
    server: FedAvg
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from literal.network import Array, Examples, averaged, hidden_layer, hidden_layer_gradient, slope
from literal.problem import Plan, Trace


def penalty(a: Array, paper: bool = False) -> tuple[float, Array]:
    """The last part of line 3 without coef, and its gradient by the features."""
    N, d = a.shape
    mean, var = a.mean(0), a.var(0, ddof=1)
    s = np.sqrt(var + 1e-8)
    F = (a - mean) / s  # 1
    R = F.T @ F  # 2
    off = R * (1 - np.eye(d))
    over = (d * (N - 1)) ** 2 if paper else d * (d - 1) * N
    value = (off**2).sum() / over  # 3
    dF = 4 * F @ off / over
    # through s: ds_j / da_ij = (a_ij - mean_j) / ((N - 1) s_j); through the mean: minus the column's mean
    ds = -(dF * F).sum(0) / s
    da = dF / s + ds * (a - mean) / ((N - 1) * s)
    return float(value), da - da.mean(0)


def run(
    data: Examples,
    plan: Plan,
    *,
    shapes: Sequence[tuple[int, ...]],
    coef: float,
    paper: bool = False,
    rho: float = 0.0,
) -> Trace:
    """Trace: server, local. ``shapes``: of W1, b1, W2, b2."""

    def gradient(k: int, w: Array, sent: Array, places: Sequence[int]) -> Array:
        x, y = data.batch(k, places)
        a, z = hidden_layer(w, shapes, x)
        da = coef * penalty(a, paper)[1] if len(x) > 1 else 0.0
        return hidden_layer_gradient(w, shapes, x, slope(z, y), da)

    return averaged(data, plan, gradient, rho)
