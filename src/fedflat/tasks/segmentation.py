"""Segmentation: a class for each pixel, cross entropy and mean intersection over union.

A model may give several outputs in training, the main one first; it then learns from the sum of
their losses. In evaluation it must give the main one. Losses:

    mean       over all pixels that are not ignored, weighted by class if weights are given
    hardest    per image, the mean of the floor(share P) largest of its P pixel losses, where
               ignored pixels have loss 0; then the mean over images that are not all ignored
               (online hard example mining, Shrivastava et al., CVPR 2016, arXiv:1604.03540)

Every loss is a pair of a sum and its divisor, so that batches without labelled pixels do not count.
Scores are from one confusion matrix of all images:

    IoU_c = TP / (TP + FP + FN + 1e-6)      mIoU: mean over the classes that occur in the labels
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedflat.data.examples import Batch
from fedflat.data.federation import Federation
from fedflat.errors import DataError, SettingError, number
from fedflat.registry.specs import register
from fedflat.tasks.headline import CLASS_IOU, MIOU
from fedflat.tasks.task import Task, classes_of

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


IGNORE = 255
"""The label of pixels that are ignored."""


def pixel_losses(
    logits: Tensor,
    labels: Tensor,
    *,
    ignore: int = IGNORE,
    weights: Tensor | None = None,
    summed: bool = False,
) -> Tensor:
    """Cross entropy of each pixel ``(N, h, w)`` times its class weight; 0 where ignored.

    ``summed`` returns the sum without storing the losses of all pixels.
    """
    if logits.dim() != 4 or labels.shape != (len(logits), *logits.shape[2:]):
        raise SettingError(
            f"segmentation: the model gives {tuple(logits.shape)} for labels of "
            f"{tuple(labels.shape)}; a score for each class at each pixel is needed. Use a model "
            "for segmentation, such as bisenetv2() or deeplabv3()."
        )
    reduction = "sum" if summed else "none"
    try:
        return cross_entropy(
            logits, labels.long(), weight=weights, ignore_index=ignore, reduction=reduction
        )
    except IndexError as error:
        raise DataError(
            f"segmentation: masks must have the classes 0 to {logits.shape[1] - 1}, or {ignore} "
            f"where a pixel is ignored: {str(error).rstrip('.')}. Correct the masks, or set the "
            "ignored label: segmentation(ignore=...)."
        ) from None


def mean_loss(
    outputs: Tensor | Sequence[Tensor],
    labels: Tensor,
    *,
    ignore: int = IGNORE,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Summed pixel losses, and the number of counted pixels or the sum of their weights."""
    total = _sum(
        pixel_losses(output, labels, ignore=ignore, weights=weights, summed=True)
        for output in _as_list(outputs)
    )
    counted = labels != ignore
    if weights is None:
        return total, counted.sum()
    return total, weights[torch.where(counted, labels, 0).long()].masked_fill(~counted, 0).sum()


def hard_loss(
    outputs: Tensor | Sequence[Tensor],
    labels: Tensor,
    *,
    share: float = 0.25,
    ignore: int = IGNORE,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Sum of the images' means over hard pixels, and the number of images with counted pixels."""
    total = _sum(
        hardest(pixel_losses(output, labels, ignore=ignore, weights=weights), share).sum()
        for output in _as_list(outputs)
    )
    return total, (labels != ignore).flatten(1).any(1).sum()


def hardest(losses: Tensor, share: float = 0.25) -> Tensor:
    """The mean of the largest ``floor(share P)`` losses of each image, at least one.

    >>> hardest(torch.tensor([[0.1, 0.9, 0.5, 0.3, 0.7, 0.2, 0.4, 0.8]])).tolist()
    [0.8500000238418579]
    """
    number("hard pixels", "share", share, low=0, high=1, open_low=True)
    flat = losses.flatten(1)
    count = max(math.floor(share * flat.shape[1]), 1)
    return (
        flat.mean(1)
        if count == flat.shape[1]
        else flat.topk(count, dim=1, sorted=False).values.mean(1)
    )


def _as_list(outputs: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    return [outputs] if isinstance(outputs, Tensor) else outputs


def _sum(parts: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(parts)).sum()


@dataclass(frozen=True, repr=False)
class Segmentation(Task):
    """A class for each pixel. The headline score is the mean IoU.

    ignore
        The label of pixels that are not counted.
    hard
        The share of each image's pixels, those with the largest losses, that is trained on (OHEM).
        Ignored pixels have loss 0. ``None``: all pixels that are not ignored.
    weights
        Weight of each class in the loss; a list will do. ``None``: equal weights.
    """

    ignore: int = 255
    hard: float | None = None
    weights: tuple[float, ...] | None = None

    headline = MIOU
    usual_model = "small_unet"

    def __post_init__(self) -> None:
        number("segmentation", "ignore", self.ignore, low=-(2**31), high=2**31, whole=True)
        if self.hard is not None:
            number("segmentation", "hard", self.hard, low=0, high=1, open_low=True)
        if self.weights is not None:
            if not isinstance(self.weights, list | tuple):
                raise SettingError(
                    "segmentation: weights must be a list, one for each class, found "
                    f"{self.weights!r}."
                )
            for weight in self.weights:
                number("segmentation", "every weight", weight, low=0)
            object.__setattr__(self, "weights", tuple(self.weights))

    @property
    def segments(self) -> bool:
        return True

    @property
    def ignored_label(self) -> int:
        """The label of pixels that are not scored."""
        return self.ignore

    def outputs(self, fed: Federation) -> int:
        """One score per class at each pixel."""
        return classes_of(self, fed)

    def check(self, fed: Federation, output: Any, batch: Batch) -> None:
        """Refuse outputs without one score per class at each pixel of the mask."""
        super().check(fed, output, batch)
        labels = batch.labels
        needed = (
            len(labels),
            output.shape[1] if output.dim() == 4 else fed.classes,
            *labels.shape[1:],
        )
        if labels.dim() != 3 or labels.is_floating_point() or tuple(output.shape) != needed:
            raise SettingError(
                f"segmentation: the model gives {tuple(output.shape)} for targets of "
                f"{tuple(labels.shape)}, {labels.dtype}; masks of classes and a score for each "
                "class at each of their pixels are needed. Use data with masks and a model for "
                "segmentation, such as small_unet()."
            )
        if self.weights is not None and len(self.weights) != output.shape[1]:
            raise SettingError(
                f"segmentation: weights must be one for each of {output.shape[1]} classes, found "
                f"{len(self.weights)}."
            )
        if output.shape[1] < fed.classes:
            raise SettingError(
                f"the model gives {output.shape[1]} class scores, but there are {fed.classes} "
                f"classes. Make its last layer {fed.classes} wide."
            )

    def loss(self, output: Tensor | tuple[Tensor, ...], batch: Batch) -> tuple[Tensor, Tensor]:
        """Cross entropy of the counted pixels, or of the hardest of each image."""
        first = output if isinstance(output, Tensor) else output[0]
        weights = None if self.weights is None else first.new_tensor(self.weights)
        if self.hard is None:
            return mean_loss(output, batch.targets, ignore=self.ignore, weights=weights)
        return hard_loss(
            output, batch.targets, share=self.hard, ignore=self.ignore, weights=weights
        )

    def meter(self, outputs: int) -> SegmentationMeter:
        return SegmentationMeter(outputs, self.ignore)


class SegmentationMeter:
    """A confusion matrix over all images."""

    def __init__(self, classes: int, ignore: int) -> None:
        self.ignore, self.matrix = ignore, torch.zeros(classes, classes, dtype=torch.long)

    def add(self, output: Tensor, batch: Batch) -> None:
        self.matrix += confusion(
            output.argmax(1), batch.targets, len(self.matrix), self.ignore
        ).cpu()

    def scores(self) -> dict[str, float]:
        """Mean IoU over classes that occur, pixel accuracy, and each class's IoU (``iou_0``)."""
        ious = {
            f"{CLASS_IOU}{place}": value
            for place, value in enumerate(class_ious(self.matrix).tolist())
        }
        return {
            MIOU.name: mean_iou(self.matrix),
            "pixel_accuracy": pixel_accuracy(self.matrix),
            **ious,
        }


segmentation = register("task", "segmentation")(Segmentation)
