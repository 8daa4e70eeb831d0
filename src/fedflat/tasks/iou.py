"""Intersection over union per class, from one confusion matrix of all images.

IoU_c = TP / (TP + FP + FN + 1e-6)      mIoU: mean over the classes that occur in the labels
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

TINY = 1e-6


def confusion(predicted: Tensor, labels: Tensor, classes: int, ignore: int = 255) -> Tensor:
    """Confusion matrix: true classes in rows, predicted ones in columns; ``ignore`` is skipped."""
    counted = labels != ignore
    pairs = labels[counted].long() * classes + predicted[counted].long()
    return torch.bincount(pairs, minlength=classes * classes).view(classes, classes)


def class_ious(matrix: Tensor) -> Tensor:
    """The IoU of each class; NaN for a class that does not occur in the labels."""
    m = matrix.double()
    hits, truth = m.diagonal(), m.sum(1)
    ious = hits / (truth + m.sum(0) - hits + TINY)
    return torch.where(truth > 0, ious, torch.nan)


def mean_iou(matrix: Tensor) -> float:
    """The mean IoU of the classes that occur in the labels; NaN if all pixels are ignored."""
    return float(class_ious(matrix).nanmean())


def pixel_accuracy(matrix: Tensor) -> float:
    """The share of pixels with the right class; NaN if all pixels are ignored.

    PyTorch divides integers in float32, so the counts are divided as Python numbers.
    """
    right, counted = int(matrix.diagonal().sum()), int(matrix.sum())
    return right / counted if counted else math.nan
