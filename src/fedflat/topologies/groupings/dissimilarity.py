"""Dissimilarity of a client and a group: large where the two make a good mixture.

cosine        1 - cos(a, b)
euclidean     |a - b|
gini          1 - sum m^2, with m = (a + b) / 2: how even the mixture of two distributions is
kl            1 - KL(m || uniform), with the same m
norm_cosine   1 - cos(a / (a + b), b / (a + b)), for Task2Vec's embeddings
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float64]
"""One vector per row; a single vector has one axis."""
Dissimilarity = Callable[[Vectors, Vectors], Vectors]
"""From a vector ``one`` to each of the rows ``others``."""
AT_A_TIME = 1 << 17
"""Numbers processed at a time, so that they fit in the processor's cache."""


def scores(tau: str, one: Vectors, others: Vectors, among: NDArray[np.int64]) -> Vectors:
    """Return the dissimilarity of ``one`` to the rows ``among`` of ``others``.

    >>> others = np.array([[3.0, 4.0], [9.0, 9.0], [0.0, 1.0]])
    >>> scores("euclidean", np.zeros(2), others, np.array([0, 2])).tolist()
    [5.0, 1.0]
    """
    rows = max(1, AT_A_TIME // len(one))
    return np.concatenate(
        [TAUS[tau](one, others[among[at : at + rows]]) for at in range(0, len(among), rows)]
    )


def squares(rows: Vectors) -> Vectors:
    """Return the squared length of each row."""
    found: Vectors = np.einsum("ij,ij->i", rows, rows)
    return found


def cosine(one: Vectors, others: Vectors) -> Vectors:
    """Return one minus the cosine of the angle. It is 1 for a vector of zeros.

    >>> cosine(np.array([1.0, 0.0]), np.array([[2.0, 0.0], [0.0, 3.0], [0.0, 0.0]])).tolist()
    [0.0, 1.0, 1.0]
    """
    return _one_minus_cosine(others @ one, one @ one, squares(others))


def euclidean(one: Vectors, others: Vectors) -> Vectors:
    """Return the length of the difference."""
    return np.sqrt(squares(others - one))


def gini(one: Vectors, others: Vectors) -> Vectors:
    """Return Gini's index of the mixture of two distributions."""
    return 1 - squares((others + one) / 2)


def kl(one: Vectors, others: Vectors) -> Vectors:
    """Return one minus the divergence of the mixture from the uniform distribution."""
    mixture = (others + one) / 2
    negative_entropy: Vectors = (mixture * np.log(np.maximum(mixture, 1e-300))).sum(1)
    return 1.0 - float(np.log(len(one))) - negative_entropy


def norm_cosine(one: Vectors, others: Vectors) -> Vectors:
    """Return one minus the cosine of both vectors divided elementwise by their sum.

    >>> norm_cosine(np.array([1.0, 2.0, 3.0]), np.array([[3.0, 2.0, 2.0]])).round(8).tolist()
    [0.16224245]
    """
    scale = others + (one + 1e-8)
    scale *= scale
    np.reciprocal(scale, out=scale)
    lengths = scale @ (one * one)
    scale *= others
    return _one_minus_cosine(scale @ one, lengths, np.einsum("ij,ij->i", scale, others))


def _one_minus_cosine(product: Vectors, one: Vectors, other: Vectors) -> Vectors:
    """From the inner products of two vectors with each other and with themselves."""
    lengths = np.sqrt(one * other)
    return 1 - np.divide(product, lengths, out=np.zeros_like(product), where=lengths > 0)


TAUS: Mapping[str, Dissimilarity] = {
    "cosine": cosine,
    "euclidean": euclidean,
    "gini": gini,
    "kl": kl,
    "norm_cosine": norm_cosine,
}
OF_DISTRIBUTIONS = ("gini", "kl")
"""Those that need vectors of probabilities."""
