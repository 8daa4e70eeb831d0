"""Distributions over classes: of a client's labels, and of what its model is sure of."""

from __future__ import annotations

import torch
from torch import Tensor

from fedflat.errors import SettingError


def class_shares(labels: Tensor, classes: int) -> Tensor:
    """The share of each class.

    >>> class_shares(torch.tensor([0, 2, 2, 2]), 3).tolist()
    [0.25, 0.0, 0.75]
    """
    counts = torch.bincount(labels, minlength=classes).double()
    return counts / counts.sum()


def confidence(probabilities: Tensor, labels: Tensor, classes: int) -> Tensor:
    """How sure a model is of each class, as shares: its probabilities of the true class, summed over the class.

    ``probabilities`` has the model's softmax for each example of a public set in rows, ``labels`` their true classes.

    >>> sure = torch.tensor([[0.9, 0.1], [0.7, 0.3], [0.4, 0.6], [0.8, 0.2]])
    >>> [round(share, 3) for share in confidence(sure, torch.tensor([0, 0, 1, 1]), 2).tolist()]
    [0.667, 0.333]
    """
    if probabilities.shape != (len(labels), classes) or not len(labels):
        raise SettingError(
            f"confidence: each of the {len(labels)} public examples must have {classes} probabilities, found an array "
            f"of shape {tuple(probabilities.shape)}."
        )
    true = probabilities.double().gather(1, labels[:, None])[:, 0]
    sums = torch.zeros(classes, dtype=torch.float64).index_add_(0, labels, true)
    if not bool(sums.sum() > 0):
        raise SettingError(
            "confidence: the model gives no true class of the public set a probability above 0. Train it at a lower "
            "rate, or for fewer epochs."
        )
    return sums / sums.sum()
