"""k-means by scikit-learn, with results that depend on the seed only."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
Labels = NDArray[np.int64]


def k_means(points: Points, count: int, seed: int, *, starts: int = 10) -> Labels:
    """Return the cluster of each point, from 0 to ``count - 1``. No cluster is empty.

    points
        One row for each point; at least ``count`` rows.
    starts
        How often k-means++ draws new centres. The result with the lowest sum of squared distances is taken.

    One thread does the work, because the order of sums, and with it the result, depends on the
    number of threads.

    >>> k_means(np.array([[0.0], [1.0], [10.0], [11.0]]), 2, seed=0).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # fewer different points than clusters: see below
        found = KMeans(count, n_init=starts, random_state=seed % 2**32).fit(points)
    labels: Labels = found.labels_.astype(np.int64)
    for empty in np.setdiff1d(np.arange(count), labels):
        largest = np.bincount(labels).argmax()
        labels[np.flatnonzero(labels == largest)[-1]] = empty
    return labels
