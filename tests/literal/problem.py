"""Small quadratics in float64, the plan of a run on them, and the local step that all twins share.

Client k holds ``N_k`` examples; example i is ``1/2 (w - a_i)^T H_i (w - a_i)``, so that the mean
gradient of a mini-batch is the mean over the batch of ``H_i (w - a_i)``.

The toy problem Q has two clients in the plane and full-batch gradients, two local steps of rate
0.1:

    H_1 = diag(2, 1)   a_1 = (1, -1)      H_2 = diag(1, 4)   a_2 = (0, 1)      w^0 = (3, 2)
    F = (f_1 + f_2) / 2 = 7.5 at w^0, with gradient (3.5, 3.5), Hessian diag(1.5, 2.5), minimum at (2/3, 3/5)

"full": both clients in every round. "part": client 1, client 2, client 1, in three rounds, which
tells a mean over the cohort from a mean over the population. Clients are counted from 0 in the
code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Problem:
    """A federation of quadratics."""

    H: list[Array]
    """One array (N_k, d, d) per client, symmetric and positive definite."""
    a: list[Array]
    """One array (N_k, d) per client."""
    w0: Array

    @property
    def clients(self) -> int:
        """K, the number of all clients."""
        return len(self.H)

    @property
    def dim(self) -> int:
        return len(self.w0)

    @property
    def sizes(self) -> list[int]:
        """N_k for every client."""
        return [len(a) for a in self.a]

    def gradient(self, k: int, w: Array, batch: Sequence[int]) -> Array:
        """g_k(w): the gradient of the mean loss over some examples of client k."""
        g = np.zeros(self.dim)
        for i in batch:
            g += self.H[k][i] @ (w - self.a[k][i])
        return g / len(batch)

    def full_gradient(self, k: int, w: Array) -> Array:
        """The gradient of client k's mean loss over all its examples."""
        return self.gradient(k, w, range(self.sizes[k]))

    def loss(self, k: int, w: Array) -> float:
        """f_k(w): client k's mean loss over all its examples."""
        values = [0.5 * (w - a) @ H @ (w - a) for H, a in zip(self.H[k], self.a[k], strict=True)]
        return float(np.mean(values))


@dataclass(frozen=True)
class Plan:
    """Who trains when, on which batches, at which rate: everything random about a run, drawn
    beforehand."""

    cohorts: list[list[int]]
    """C^t: the clients of every round."""
    orders: list[dict[int, list[list[int]]]]
    """orders[t][k]: the batches of client k in round t, each a list of its own examples'
    indices."""
    lr: list[float]
    """eta_l of every round."""
    wd: float = 0.0
    momentum: float = 0.0
    clip: float | None = None
    """G, the largest norm of a direction; None: no clipping."""
    server_lr: float = 1.0
    """eta_g, where the method has one."""

    @property
    def rounds(self) -> int:
        return len(self.cohorts)

    def steps(self, t: int, k: int) -> int:
        """tau_k: the local steps client k takes in round t."""
        return len(self.orders[t][k])


class Trace(SimpleNamespace):
    """What a run went through. ``server[t]`` is the model after round t (w^{t+1}); the other fields
    are lists over rounds too, and those about clients hold a value per client in each round."""


def local_step(w: Array, m: Array, u: Array, lr: float, plan: Plan) -> tuple[Array, Array]:
    """One step of SGD along ``u``: the new model and the new momentum (0 at the start of a
    request)."""
    if plan.clip is not None:
        norm = np.linalg.norm(u)
        if norm > plan.clip:
            u = u * (plan.clip / norm)
    u = u + plan.wd * w
    m = plan.momentum * m + u
    return w - lr * m, m


def local_train(problem: Problem, plan: Plan, t: int, k: int, start: Array) -> Array:
    """Plain local SGD: client k's model at the end of its request in round t."""
    w, m = start, np.zeros_like(start)
    for batch in plan.orders[t][k]:
        w, m = local_step(w, m, problem.gradient(k, w, batch), plan.lr[t], plan)
    return w


def weights(problem: Problem, cohort: Sequence[int], weighting: str) -> dict[int, float]:
    """p_k: ``N_k / sum_j N_j`` over the cohort ("sized"), or ``1/S`` ("uniform")."""
    if weighting == "uniform":
        return {k: 1 / len(cohort) for k in cohort}
    if weighting == "sized":
        total = sum(problem.sizes[k] for k in cohort)
        return {k: problem.sizes[k] / total for k in cohort}
    raise ValueError(f"weighting is 'sized' or 'uniform', not {weighting!r}")


def toy_q(
    participation: str = "full", sizes: tuple[int, int] = (1, 1), rounds: int | None = None
) -> tuple[Problem, Plan]:
    """The toy problem Q. A client of size n holds its quadratic n times."""
    hessians = [np.diag([2.0, 1.0]), np.diag([1.0, 4.0])]
    centres = [np.array([1.0, -1.0]), np.array([0.0, 1.0])]
    problem = Problem(
        H=[np.stack([H] * n) for H, n in zip(hessians, sizes, strict=True)],
        a=[np.stack([a] * n) for a, n in zip(centres, sizes, strict=True)],
        w0=np.array([3.0, 2.0]),
    )
    if participation == "full":
        cohorts = [[0, 1]] * (2 if rounds is None else rounds)
    elif participation == "part":
        cohorts = [[t % 2] for t in range(3 if rounds is None else rounds)]
    else:
        raise ValueError(f"participation is 'full' or 'part', not {participation!r}")
    orders = [{k: [list(range(sizes[k]))] * 2 for k in cohort} for cohort in cohorts]
    return problem, Plan(cohorts=cohorts, orders=orders, lr=[0.1] * len(cohorts))


def random_problem(
    seed: int, clients: int = 5, dim: int = 4, sizes: Sequence[int] | None = None, largest: int = 9
) -> Problem:
    """Random quadratics. Without ``sizes`` every client draws its own number of examples, at least
    2."""
    rng = np.random.default_rng(seed)
    if sizes is None:
        sizes = [int(n) for n in rng.integers(2, largest + 1, size=clients)]
    H, a = [], []
    for n in sizes:
        roots = rng.normal(size=(n, dim, dim))
        H.append(roots @ roots.transpose(0, 2, 1) / dim + 0.3 * np.eye(dim))
        a.append(rng.normal(size=dim) + 0.5 * rng.normal(size=(n, dim)))
    return Problem(H=H, a=a, w0=2 * rng.normal(size=dim))


def random_plan(
    seed: int,
    problem: Problem,
    rounds: int = 6,
    *,
    cohort: int | tuple[int, int] = 2,
    batch: int | None = 3,
    epochs: int = 2,
    lr: float = 0.05,
    lr_decay: float = 0.9,
    wd: float = 0.0,
    momentum: float = 0.0,
    clip: float | None = None,
    server_lr: float = 1.0,
) -> Plan:
    """A run with random cohorts and batches.

    ``cohort`` clients a round without replacement, or a number between two. Every epoch shuffles a
    client's examples and cuts them in batches; the last one may be short and is kept.
    ``batch=None``: full batches. The rate is ``lr * lr_decay^t``.
    """
    rng = np.random.default_rng((seed, 1))
    low, high = (cohort, cohort) if isinstance(cohort, int) else cohort
    cohorts, orders = [], []
    for _ in range(rounds):
        drawn = rng.choice(problem.clients, size=int(rng.integers(low, high + 1)), replace=False)
        cohorts.append([int(k) for k in drawn])
        orders.append({})
        for k in cohorts[-1]:
            batches = []
            for _ in range(epochs):
                order = [int(i) for i in rng.permutation(problem.sizes[k])]
                length = batch or len(order)
                batches += [order[i : i + length] for i in range(0, len(order), length)]
            orders[-1][k] = batches
    rates = [lr * lr_decay**t for t in range(rounds)]
    return Plan(cohorts, orders, rates, wd=wd, momentum=momentum, clip=clip, server_lr=server_lr)
