"""k-means by scikit-learn, with results that depend on the seed only."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
Labels = NDArray[np.int64]


def k_means(points: Points, count: int, seed: int, *, starts: int = 10) -> Labels:
    """The cluster of each point, from 0 to ``count - 1``. No cluster is empty.

    points
        One row per point; at least ``count`` rows.
    starts
        Number of initializations by k-means++. The result with the lowest inertia is returned.

    It uses one thread, because the order of sums, and so the result, depends on the number of
    threads.

    >>> labels = k_means(np.array([[0.0], [1.0], [10.0], [11.0]]), 2, seed=0).tolist()
    >>> labels in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1), warnings.catch_warnings():
        # Warns if there are fewer distinct points than clusters: see below.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KMeans(count, n_init=starts, random_state=seed % 2**32).fit(points)
    labels: Labels = model.labels_.astype(np.int64)
    for empty in np.setdiff1d(np.arange(count), labels):
        largest = np.bincount(labels).argmax()
        labels[np.flatnonzero(labels == largest)[-1]] = empty
    return labels
