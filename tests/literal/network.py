"""Small networks by hand, for methods that look inside one: examples with classes, and vectors cut
into tensors.

Client k holds ``N_k`` rows of inputs and their classes. Gradients are those of the mean loss over a
batch, derived on paper. A plan from ``problem.random_plan`` says who trains when on which of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

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
