"""A class for each pixel: cross entropy over the pixels that count, and the mean intersection over union."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedflat.data.batch import Batch
from fedflat.data.federation import Federation
from fedflat.errors import SettingError, number
from fedflat.language.spelling import register
from fedflat.tasks.headline import Headline
from fedflat.tasks.iou import class_ious, confusion, mean_iou, pixel_accuracy
from fedflat.tasks.task import Task

MIOU = Headline("miou", label="mIoU", unit="%", factor=100.0)


@dataclass(frozen=True, repr=False)
class Segmentation(Task):
    """A class for each pixel; those whose label is ``ignore`` count nowhere. Judged by the mean IoU."""

    ignore: int = 255

    headline = MIOU
    usual_model = "small_unet"

    def __post_init__(self) -> None:
        number("segmentation", "ignore", self.ignore, low=-(2**31), high=2**31, whole=True)

    def outputs(self, fed: Federation) -> int:
        """A score for each class at each pixel."""
        return fed.classes

    def check(self, fed: Federation, output: Any, batch: Batch) -> None:
        """Scores for each class at each pixel of the mask."""
        super().check(fed, output, batch)
        labels = batch.labels
        needed = (len(labels), output.shape[1] if output.dim() == 4 else fed.classes, *labels.shape[1:])
        if labels.dim() != 3 or labels.is_floating_point() or tuple(output.shape) != needed:
            raise SettingError(
                f"segmentation: the model gives {tuple(output.shape)} for targets of {tuple(labels.shape)}, "
                f"{labels.dtype}; masks of classes and a score for each class at each of their pixels are needed. Use "
                "data with masks and a model for segmentation, such as small_unet()."
            )
        if output.shape[1] < fed.classes:
            raise SettingError(
                f"the model gives {output.shape[1]} class scores, but there are {fed.classes} classes. Make its last "
                f"layer {fed.classes} wide."
            )

    def loss(self, output: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Cross entropy of the pixels that count."""
        total = cross_entropy(output, batch.targets, ignore_index=self.ignore, reduction="sum")
        return total, (batch.targets != self.ignore).sum()

    def meter(self, outputs: int) -> Pixels:
        """See `Pixels`."""
        return Pixels(outputs, self.ignore)


class Pixels:
    """One confusion matrix of all images."""

    def __init__(self, classes: int, ignore: int) -> None:
        self.ignore, self.matrix = ignore, torch.zeros(classes, classes, dtype=torch.long)

    def add(self, output: Tensor, batch: Batch) -> None:
        """Count which class was taken for which."""
        self.matrix += confusion(output.argmax(1), batch.targets, len(self.matrix), self.ignore).cpu()

    def scores(self) -> dict[str, float]:
        """The mean over the classes that occur, the share of right pixels, and each class's own: ``iou_0``, ..."""
        each = {f"iou_{place}": value for place, value in enumerate(class_ious(self.matrix).tolist())}
        return {MIOU.name: mean_iou(self.matrix), "pixel_accuracy": pixel_accuracy(self.matrix), **each}


segmentation = register("task", "segmentation")(Segmentation)
