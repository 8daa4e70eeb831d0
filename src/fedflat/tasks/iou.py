"""How well pixels are told apart: intersection over union of each class, from one confusion matrix
of all images.

IoU_c = TP / (TP + FP + FN + 1e-6)      mIoU: its mean over the classes that are in the truth
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

TINY = 1e-6
EACH = "iou_"
"""What the name of a class's IoU begins with, its number after it."""


def confusion(predicted: Tensor, labels: Tensor, classes: int, ignore: int = 255) -> Tensor:
    """How many pixels of each class (row) were given each class (column); ignored ones do not
    count."""
    counted = labels != ignore
    pairs = labels[counted].long() * classes + predicted[counted].long()
    return torch.bincount(pairs, minlength=classes * classes).view(classes, classes)


def class_ious(matrix: Tensor) -> Tensor:
    """The IoU of each class; NaN for a class that is not in the truth."""
    m = matrix.double()
    hits, truth = m.diagonal(), m.sum(1)
    ious = hits / (truth + m.sum(0) - hits + TINY)
    return torch.where(truth > 0, ious, torch.nan)


def mean_iou(matrix: Tensor) -> float:
    """The mean IoU of the classes in the truth; NaN if no pixel counts."""
    return float(class_ious(matrix).nanmean())


def pixel_accuracy(matrix: Tensor) -> float:
    """The share of pixels with the right class; NaN if no pixel counts.

    Torch divides whole numbers in float32, so the counts are divided as Python's numbers.
    """
    right, counted = int(matrix.diagonal().sum()), int(matrix.sum())
    return right / counted if counted else math.nan
