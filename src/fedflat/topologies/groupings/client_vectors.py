"""The vectors by which clients are grouped, from their descriptions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from fedflat.client.instructions import Describer
from fedflat.errors import SettingError
from fedflat.topologies.groupings.dissimilarity import Vectors

SHARE = 0.9
"""Share of the variance that the principal components must exceed."""
COLUMNS = 1 << 16
"""Numbers of each client that are multiplied at a time."""


def representers(describer: Describer, sent: Sequence[Tensor]) -> Vectors:
    """Return a vector for each client: its shares, its principal components, or its plain numbers.

    >>> import torch
    >>> from fedflat.client.instructions import LabelCounts
    >>> representers(LabelCounts(), [torch.tensor([3, 1]), torch.tensor([0, 2])]).tolist()
    [[0.75, 0.25], [0.0, 1.0]]
    """
    if len({one.shape for one in sent}) > 1:
        raise SettingError(
            f"clients cannot be compared by {describer}, since their tensors have different "
            "shapes. Use another description."
        )
    if describer.components:
        return principal(sent)
    found: Vectors = np.stack([one.reshape(-1).double().numpy() for one in sent])
    if not describer.gives_distribution:
        return found
    if not (found.sum(1) > 0).all():
        client = int(np.flatnonzero(found.sum(1) <= 0)[0])
        raise SettingError(f"client {client} has no labels to be described by.")
    shares: Vectors = found / found.sum(1, keepdims=True)
    return shares


def principal(sent: Sequence[Tensor], share: float = SHARE) -> Vectors:
    """Return the fewest principal components that hold more than ``share`` of the variance.

    They are computed from the clients' inner products, since there are far fewer clients than
    weights. Only a part of each tensor is used at a time. The signs of components have no meaning;
    distances do.

    >>> import torch
    >>> rows = [0.0, 0.0, 0.1], [3.0, 4.0, 0.0], [6.0, 8.0, 0.1]
    >>> found = principal([torch.tensor(row) for row in rows])
    >>> found.shape, np.abs(np.diff(found[:, 0])).round(3).tolist()
    ((3, 1), [5.0, 5.0])
    """
    products = np.zeros((len(sent), len(sent)))
    for start in range(0, sent[0].numel(), COLUMNS):
        part = np.stack([one.reshape(-1)[start : start + COLUMNS].double().numpy() for one in sent])
        part = part - part.mean(0)
        products += part @ part.T
    variances, axes = np.linalg.eigh(products)
    variances, axes = np.maximum(variances[::-1], 0), axes[:, ::-1]
    held = np.cumsum(variances)
    count = 1 + int(np.argmax(held > share * held[-1]))
    found: Vectors = axes[:, :count] * np.sqrt(variances[:count])
    return found
