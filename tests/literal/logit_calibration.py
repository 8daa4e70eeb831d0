"""FedLC and FedRS.

Zhang et al., Federated Learning with Label Distribution Skew via Logits Calibration, ICML 2022.
Li and Zhan, FedRS: Federated Learning with Restricted Softmax for Label Distribution Non-IID Data,
KDD 2021. On FedAvg or, with ``rho``, on FedSAM.

The network: a = tanh(W1 x + b1), z = W2 a + b2; n_c: examples of class c that client k has.

    client k of C^t:
 1      FedLC: loss = -log( e^{z_y - tau n_y^(-1/4)} / sum_{c: n_c > 0} e^{z_c - tau n_c^(-1/4)} )
 2      FedRS: loss = -log( e^{r_y z_y} / sum_c e^{r_c z_c} ),   r_c = alpha if n_c = 0, else 1
                                           "repo": r_c = alpha + (1 - alpha) n_c / max_j n_j
    server: FedAvg
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from literal.network import Array, Examples, averaged, hidden_layer, hidden_layer_gradient
from literal.problem import Plan, Trace


def loss_and_slope(
    z: Array,
    y: int,
    counts: Array,
    *,
    tau: float | None = None,
    alpha: float | None = None,
    flavour: str = "paper",
) -> tuple[float, Array]:
    """Line 1 (tau) or 2 (alpha) for one example, and its gradient by z."""
    present = counts > 0
    if tau is not None:
        e = [np.exp(z[c] - tau * counts[c] ** -0.25) if present[c] else 0.0 for c in range(len(z))]
        factors = np.ones(len(z))
    else:
        share = present if flavour == "paper" else counts / max(counts)
        factors = np.array([alpha + (1 - alpha) * float(one) for one in share])
        e = [np.exp(factors[c] * z[c]) for c in range(len(z))]
    p = np.array(e) / sum(e)
    d = p.copy()
    d[y] -= 1
    return float(-np.log(p[y])), d * factors


def run(
    data: Examples,
    plan: Plan,
    *,
    shapes: Sequence[tuple[int, ...]],
    classes: int,
    tau: float | None = None,
    alpha: float | None = None,
    flavour: str = "paper",
    rho: float = 0.0,
) -> Trace:
    """Trace: server, local. ``shapes``: of W1, b1, W2, b2."""
    counts = [np.bincount(y, minlength=classes).astype(float) for y in data.y]

    def gradient(k: int, w: Array, sent: Array, places: Sequence[int]) -> Array:
        x, y = data.batch(k, places)
        z = hidden_layer(w, shapes, x)[1]
        rows = [
            loss_and_slope(z[i], y[i], counts[k], tau=tau, alpha=alpha, flavour=flavour)[1]
            for i in range(len(y))
        ]
        return hidden_layer_gradient(w, shapes, x, np.array(rows) / len(y))

    return averaged(data, plan, gradient, rho)
