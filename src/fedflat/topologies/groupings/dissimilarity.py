"""How little a client is like a group: large where the two would make a good mixture.

cosine        1 - cos(a, b)
euclidean     |a - b|
gini          1 - sum m^2, with m = (a + b) / 2: how even the mixture of two distributions is
kl            1 - KL(m || uniform), likewise
norm_cosine   1 - cos(a / (a + b), b / (a + b)), for Task2Vec's embeddings
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float64]
"""One in each row; one alone has a single axis."""
Dissimilarity = Callable[[Vectors, Vectors], Vectors]
"""Of a vector ``one`` to each of the rows ``others``."""
AT_A_TIME = 1 << 17
"""Numbers that are worked on together, so that they stay near the processor."""


def scores(tau: str, one: Vectors, others: Vectors, among: NDArray[np.int64]) -> Vectors:
    """How unlike ``one`` are those rows of ``others`` that are ``among``.

    >>> scores("euclidean", np.zeros(2), np.array([[3.0, 4.0], [9.0, 9.0], [0.0, 1.0]]), np.array([0, 2])).tolist()
    [5.0, 1.0]
    """
    rows = max(1, AT_A_TIME // len(one))
    return np.concatenate(
        [TAUS[tau](one, others[among[at : at + rows]]) for at in range(0, len(among), rows)]
    )


def squares(rows: Vectors) -> Vectors:
    """The squared length of each row."""
    found: Vectors = np.einsum("ij,ij->i", rows, rows)
    return found


def cosine(one: Vectors, others: Vectors) -> Vectors:
    """One minus the cosine of the angle; a vector of zeros has nothing in common with any.

    >>> cosine(np.array([1.0, 0.0]), np.array([[2.0, 0.0], [0.0, 3.0], [0.0, 0.0]])).tolist()
    [0.0, 1.0, 1.0]
    """
    return _one_minus_cosine(others @ one, one @ one, squares(others))


def euclidean(one: Vectors, others: Vectors) -> Vectors:
    """The length of the difference."""
    return np.sqrt(squares(others - one))


def gini(one: Vectors, others: Vectors) -> Vectors:
    """Gini's index of the mixture of two distributions."""
    return 1 - squares((others + one) / 2)


def kl(one: Vectors, others: Vectors) -> Vectors:
    """One minus the divergence of the mixture from the uniform distribution; 0 log 0 is 0."""
    mixture = (others + one) / 2
    negative_entropy: Vectors = (mixture * np.log(np.maximum(mixture, 1e-300))).sum(1)
    return 1.0 - float(np.log(len(one))) - negative_entropy


def norm_cosine(one: Vectors, others: Vectors) -> Vectors:
    """One minus the cosine after both were divided by their sum, number by number.

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
"""Those that ask for vectors of probabilities."""
