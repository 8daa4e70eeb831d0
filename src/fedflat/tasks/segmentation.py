"""Segmentation: a class for each pixel, cross entropy and mean intersection over union.

A model may give several outputs in training, the main one first; it then learns from the sum of
their losses. In evaluation it must give the main one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedflat.data.examples import Batch
from fedflat.data.federation import Federation
from fedflat.errors import SettingError, number
from fedflat.registry.specs import register
from fedflat.tasks.headline import CLASS_IOU, MIOU
from fedflat.tasks.iou import class_ious, confusion, mean_iou, pixel_accuracy
from fedflat.tasks.pixels import hard_loss, mean_loss
from fedflat.tasks.task import Task, classes_of


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
