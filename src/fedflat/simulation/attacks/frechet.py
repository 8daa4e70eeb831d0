"""The Fréchet distance between two sets of features, each modelled as a Gaussian.

    ||mu - mu'||^2 + Tr(S + S' - 2 (S S')^(1/2))

Covariances are over n - 1. The distance of a set from itself is 0. Recovered images that differ
from the real ones have a large distance, so higher is safer.
"""

from __future__ import annotations

import torch
from torch import Tensor

Moments = tuple[Tensor, Tensor]
"""Mean and covariance."""


def moments(features: Tensor) -> Moments:
    """Return mean and covariance of rows.

    >>> mean, covariance = moments(torch.tensor([[0.0, 1.0], [2.0, 1.0]]))
    >>> mean.tolist(), covariance.tolist()
    ([1.0, 1.0], [[2.0, 0.0], [0.0, 0.0]])
    """
    rows = features.double()
    centred = rows - rows.mean(0)
    return rows.mean(0), centred.T @ centred / (len(rows) - 1)


def frechet(a: Moments, b: Moments) -> float:
    """Return the distance between two Gaussians.

    >>> one = torch.ones(1, dtype=torch.float64)
    >>> frechet((0 * one, one.view(1, 1)), (one, 4 * one.view(1, 1)))
    2.0
    """
    (mu, s), (nu, t) = a, b
    # The eigenvalues of (S S')^(1/2) are the singular values of S^(1/2) S'^(1/2), also where S has
    # no inverse.
    cross = torch.linalg.svdvals(_root(s) @ _root(t)).sum()
    return max(0.0, float((mu - nu).square().sum() + s.trace() + t.trace() - 2 * cross))


def _root(s: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(s)
    root: Tensor = vectors * values.clamp(min=0).sqrt() @ vectors.T
    return root
