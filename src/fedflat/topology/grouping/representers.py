"""From what clients sent, or the server worked out of it, to the vectors by which they are grouped."""

from __future__ import annotations

import numpy as np

from fedflat.errors import SettingError
from fedflat.topology.grouping.dissimilarity import Vectors

SHARE = 0.9
COLUMNS = 1 << 16
"""Numbers of each client that are multiplied together."""


def representers(psi: str, sent: np.ndarray) -> Vectors:
    """The representers by this description: label counts as shares, weights of layers by their components.

    >>> representers("labels", np.array([[3, 1], [0, 2]])).tolist()
    [[0.75, 0.25], [0.0, 1.0]]
    """
    if psi == "labels":
        counts = np.asarray(sent, np.float64)
        if not (counts.sum(1) > 0).all():
            client = int(np.flatnonzero(counts.sum(1) <= 0)[0])
            raise SettingError(f"client {client} has no labels to be described by.")
        shares: Vectors = counts / counts.sum(1, keepdims=True)
        return shares
    return principal(sent) if psi == "classifier" else np.asarray(sent, np.float64)


def principal(vectors: np.ndarray, share: float = SHARE) -> Vectors:
    """The vectors by their principal components: the fewest that hold more than this share of the variance.

    They come from the clients' inner products, since there are far fewer clients than weights. The signs of
    components mean nothing; distances do.

    >>> found = principal(np.array([[0.0, 0.0, 0.1], [3.0, 4.0, 0.0], [6.0, 8.0, 0.1]]))
    >>> found.shape, np.abs(np.diff(found[:, 0])).round(3).tolist()
    ((3, 1), [5.0, 5.0])
    """
    products = np.zeros((len(vectors), len(vectors)))
    for start in range(0, vectors.shape[1], COLUMNS):
        part = np.asarray(vectors[:, start : start + COLUMNS], np.float64)
        part = part - part.mean(0)
        products += part @ part.T
    variances, axes = np.linalg.eigh(products)
    variances, axes = np.maximum(variances[::-1], 0), axes[:, ::-1]
    held = np.cumsum(variances)
    count = 1 + int(np.argmax(held > share * held[-1]))
    found: Vectors = axes[:, :count] * np.sqrt(variances[:count])
    return found
