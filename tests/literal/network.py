"""Small networks by hand, for methods that look inside one: examples with classes, and vectors cut
into tensors.

Client k holds ``N_k`` rows of inputs and their classes. Gradients are those of the mean loss over a
batch, derived on paper. A plan from ``problem.random_plan`` says who trains when on which of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from literal.problem import Plan, Trace, local_step, weights

Array = np.ndarray


@dataclass(frozen=True)
class Examples:
    """A federation of classified rows, and the vector its model starts from."""

    x: list[Array]
    """One array (N_k, features) per client."""
    y: list[Array]
    """One array (N_k,) of classes per client."""
    w0: Array

    @property
    def clients(self) -> int:
        """K, the number of all clients."""
        return len(self.x)

    @property
    def sizes(self) -> list[int]:
        """N_k for every client."""
        return [len(x) for x in self.x]

    def batch(self, k: int, places: Sequence[int]) -> tuple[Array, Array]:
        """Some examples of client k."""
        return self.x[k][list(places)], self.y[k][list(places)]


def random_examples(
    seed: int, sizes: Sequence[int], features: int, classes: int, dim: int
) -> Examples:
    """Random rows, shifted for every client, and a random start of ``dim`` numbers."""
    rng = np.random.default_rng(seed)
    x = [rng.normal(size=(n, features)) + 0.5 * rng.normal(size=features) for n in sizes]
    y = [rng.integers(0, classes, size=n) for n in sizes]
    return Examples(x, y, 0.5 * rng.normal(size=dim))


def cut(w: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """The vector as tensors of these shapes, in order."""
    found, place = [], 0
    for shape in shapes:
        found.append(w[place : place + prod(shape)].reshape(shape))
        place += prod(shape)
    return found


def joined(tensors: Sequence[Array]) -> Array:
    """The tensors as one vector."""
    return np.concatenate([tensor.reshape(-1) for tensor in tensors])


def softmax(scores: Array) -> Array:
    """Probabilities of the classes, along the last axis."""
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def slope(scores: Array, y: Array) -> Array:
    """The gradient of the mean cross entropy by the scores."""
    p = softmax(scores)
    p[np.arange(len(y)), y] -= 1
    return p / len(y)


def hidden_layer(w: Array, shapes: Sequence[tuple[int, ...]], x: Array) -> tuple[Array, Array]:
    """The network a = tanh(W1 x + b1), z = W2 a + b2: its features a and scores z."""
    W1, b1, W2, b2 = cut(w, shapes)
    a = np.tanh(x @ W1.T + b1)
    return a, a @ W2.T + b2


def hidden_layer_gradient(
    w: Array, shapes: Sequence[tuple[int, ...]], x: Array, dz: Array, da: Array | float = 0.0
) -> Array:
    """The gradient by w, given those by z and, besides what comes through z, by a."""
    W2 = cut(w, shapes)[2]
    a, _ = hidden_layer(w, shapes, x)
    d = (dz @ W2 + da) * (1 - a**2)
    return joined([d.T @ x, d.sum(0), dz.T @ a, dz.sum(0)])


def divergence_slope(teacher: Array, scores: Array, temperature: float) -> Array:
    """The gradient by the scores of KL(softmax(teacher / T) || softmax(scores / T)), mean over the
    batch."""
    p, q = softmax(scores / temperature), softmax(teacher / temperature)
    return (p - q) / temperature / len(scores)


def averaged(
    data: Examples,
    plan: Plan,
    gradient: Callable[[int, Array, Array, Sequence[int]], Array],
    rho: float = 0.0,
) -> Trace:
    """FedAvg, weights by size, with a gradient of (client, point, sent model, batch); with ``rho``
    both gradients of SAM. Trace: server, local."""
    w_server = data.w0
    trace = Trace(server=[], local=[])
    for t in range(plan.rounds):
        cohort, local = plan.cohorts[t], {}
        for k in cohort:
            w, m = w_server, np.zeros_like(w_server)
            for places in plan.orders[t][k]:
                u = gradient(k, w, w_server, places)
                if rho:
                    u = gradient(k, w + rho * u / (np.linalg.norm(u) + 1e-12), w_server, places)
                w, m = local_step(w, m, u, plan.lr[t], plan)
            local[k] = w
        p = weights(data, cohort, "sized")
        w_server = w_server - plan.server_lr * sum(p[k] * (w_server - local[k]) for k in cohort)
        trace.server.append(w_server)
        trace.local.append(local)
    return trace
