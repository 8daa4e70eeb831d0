"""FedAvgM, FedAdaGrad, FedYogi, FedAdam: FedAvg's clients, an optimiser on the server.

Hsu et al., Measuring the Effects of Non-Identical Data Distribution, 2019 (FedAvgM).
Reddi et al., Adaptive Federated Optimization, ICLR 2021, Algorithm 2 (which stores -Delta).

    clients as FedAvg:
 1      Delta = sum_k p_k (w^t - w_k)
    server, m = 0 and v = tau_a^2 at the start, no bias correction:
 2      avgm     m <- beta_m m + Delta                  w <- w - eta_g m
 3      others   m <- b1 m + (1 - b1) Delta
 4      adagrad  v <- v + Delta^2
 5      yogi     v <- v - (1 - b2) Delta^2 sign(v - Delta^2)
 6      adam     v <- b2 v + (1 - b2) Delta^2
 7      others   w <- w - eta_g m / (sqrt(v) + tau_a)

``flavour="torch"`` hands Delta to ``torch.optim`` as the gradient: SGD with momentum, Adam (bias
correction, v = 0 at the start, eps 0.1) or Adagrad (accumulator 0, eps 0.01). There is no Yogi in
it.
"""

from __future__ import annotations

import numpy as np
import torch

from literal.problem import Array, Plan, Problem, Trace, local_train, weights


def run(
    problem: Problem,
    plan: Plan,
    *,
    optimiser: str,
    flavour: str = "paper",
    beta_m: float = 0.9,
    b1: float | None = None,
    b2: float = 0.99,
    tau_a: float | None = None,
    weighting: str = "sized",
) -> Trace:
    """Trace: server, delta, m, v (m and v only of the paper's flavour).

    ``b1``: 0.9, for AdaGrad 0. ``tau_a``: 1e-3; in torch's flavour it is eps, 0.1 (Adam) or 0.01
    (Adagrad).
    """
    if optimiser not in ("avgm", "adagrad", "yogi", "adam"):
        raise ValueError(f"unknown optimiser {optimiser!r}")
    if b1 is None:
        b1 = 0.0 if optimiser == "adagrad" else 0.9
    if flavour == "torch":
        return _torch(problem, plan, optimiser, beta_m, b1, b2, tau_a, weighting)
    if tau_a is None:
        tau_a = 1e-3
    w_server = problem.w0
    m, v = np.zeros(problem.dim), np.full(problem.dim, tau_a**2)
    trace = Trace(server=[], delta=[], m=[], v=[])
    for t in range(plan.rounds):
        delta = _pseudo_gradient(problem, plan, t, w_server, weighting)
        if optimiser == "avgm":
            m = beta_m * m + delta  # 2
            w_server = w_server - plan.server_lr * m
        else:
            m = b1 * m + (1 - b1) * delta  # 3
            if optimiser == "adagrad":
                v = v + delta**2  # 4
            elif optimiser == "yogi":
                v = v - (1 - b2) * delta**2 * np.sign(v - delta**2)  # 5
            else:
                v = b2 * v + (1 - b2) * delta**2  # 6
            w_server = w_server - plan.server_lr * m / (np.sqrt(v) + tau_a)  # 7
        trace.server.append(w_server)
        trace.delta.append(delta)
        trace.m.append(m)
        trace.v.append(v)
    return trace


def _pseudo_gradient(
    problem: Problem, plan: Plan, t: int, w_server: Array, weighting: str
) -> Array:
    delta = np.zeros(problem.dim)
    p = weights(problem, plan.cohorts[t], weighting)
    for k in plan.cohorts[t]:
        delta = delta + p[k] * (w_server - local_train(problem, plan, t, k, w_server))  # 1
    return delta


def _torch(
    problem: Problem,
    plan: Plan,
    optimiser: str,
    beta_m: float,
    b1: float,
    b2: float,
    eps: float | None,
    weighting: str,
) -> Trace:
    w = torch.nn.Parameter(torch.tensor(problem.w0, dtype=torch.float64))
    if optimiser == "avgm":
        stepper = torch.optim.SGD([w], lr=plan.server_lr, momentum=beta_m)
    elif optimiser == "adam":
        stepper = torch.optim.Adam(
            [w], lr=plan.server_lr, betas=(b1, b2), eps=0.1 if eps is None else eps
        )
    elif optimiser == "adagrad":
        stepper = torch.optim.Adagrad([w], lr=plan.server_lr, eps=1e-2 if eps is None else eps)
    else:
        raise ValueError(f"torch.optim has no {optimiser!r}")
    trace = Trace(server=[], delta=[])
    for t in range(plan.rounds):
        delta = _pseudo_gradient(problem, plan, t, w.detach().numpy().copy(), weighting)
        w.grad = torch.tensor(delta)
        stepper.step()
        trace.server.append(w.detach().numpy().copy())
        trace.delta.append(delta)
    return trace
