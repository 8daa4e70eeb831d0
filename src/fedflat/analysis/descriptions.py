"""Distances between the clients' descriptions, and the principal components that are kept.

Caldarola's thesis, Figures 5.8 to 5.10: the cosines between the vectors that the clients sent,
drawn as a matrix; the Frobenius norm of this matrix; the share of principal components that hold 90
% of the variance; and the distances between the vectors by which clients are grouped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from fedflat.analysis.analysis import Result
from fedflat.client.instructions import Describer
from fedflat.topologies.groupings.client_vectors import principal, representers
from fedflat.topologies.groupings.dissimilarity import TAUS, Vectors


def compute_descriptions(describer: Describer, sent: Sequence[Tensor], tau: str) -> Result:
    """Return the cosines of what clients sent, and the distances by which they are compared."""
    cosines = 1 - pairwise("cosine", np.stack([one.reshape(-1).double().numpy() for one in sent]))
    vectors = representers(describer, sent)
    kept = principal(sent).shape[1]
    return {
        "description": repr(describer),
        "tau": tau,
        "components": kept,
        "components_share": kept / min(len(sent), sent[0].numel()),
        "norm_of_cosines": float(np.linalg.norm(cosines)),
        "cosines": cosines.tolist(),
        "distances": pairwise(tau, vectors).tolist(),
    }


def pairwise(tau: str, vectors: Vectors) -> Vectors:
    """Return the dissimilarity of all pairs of rows.

    >>> rows = np.array([[1.0, 0.0], [1.0, 1.0], [-1.0, 0.0]])
    >>> (1 - pairwise("cosine", rows)).round(8).tolist()[1]
    [0.70710678, 1.0, -0.70710678]
    """
    return np.stack([TAUS[tau](one, vectors) for one in vectors])
