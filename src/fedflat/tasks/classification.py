"""Classification: cross entropy and accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn.functional import cross_entropy

from fedflat.data.examples import Batch
from fedflat.data.federation import Federation
from fedflat.errors import SettingError
from fedflat.registry.specs import register
from fedflat.tasks.headline import ACCURACY
from fedflat.tasks.task import Task, classes_of


@dataclass(frozen=True, repr=False)
class Classification(Task):
    """One class per example, the largest score. The headline score is the accuracy."""

    headline = ACCURACY
    classifies = True

    def model_for(self, shape: tuple[int, ...]) -> str:
        """The papers' CNN for images of 28 pixels or more, otherwise a small MLP."""
        return "cnn" if len(shape) == 3 and min(shape[1:]) >= 28 else "mlp"

    def outputs(self, fed: Federation) -> int:
        return classes_of(self, fed)

    def check(self, fed: Federation, output: Any, batch: Batch) -> None:
        """Refuse targets that are not classes, and outputs without one score per class."""
        super().check(fed, output, batch)
        if batch.labels.is_floating_point() or isinstance(batch.targets, tuple):
            raise SettingError(
                "classification: targets must be classes, whole numbers, found "
                f"{batch.labels.dtype}. Choose another task, such as regression()."
            )
        if output.dim() < 2 or output.shape[0] != len(batch):
            raise SettingError(
                f"the model turned a batch of {len(batch)} into {tuple(output.shape)}; "
                "classification needs one row of class scores for each example."
            )
        if output.shape[1] < fed.classes:
            raise SettingError(
                f"the model gives {output.shape[1]} class scores, but the labels go up to "
                f"{fed.classes - 1}. Make its last layer {fed.classes} wide."
            )

    def loss(self, output: Tensor, batch: Batch) -> tuple[Tensor, int]:
        """Summed cross entropy and the number of examples."""
        return cross_entropy(output, batch.targets, reduction="sum"), batch.labels.numel()

    def mean(self, output: Tensor, batch: Batch) -> tuple[Tensor, int]:
        """Mean cross entropy in one operation, which is faster for small networks."""
        return cross_entropy(output, batch.targets), batch.labels.numel()

    def meter(self, outputs: int) -> AccuracyMeter:
        return AccuracyMeter()


class AccuracyMeter:
    """Counts the examples whose largest score belongs to their class."""

    def __init__(self) -> None:
        self.right, self.count = 0, 0

    def add(self, output: Tensor, batch: Batch) -> None:
        self.right += int((output.argmax(1) == batch.targets).sum())
        self.count += batch.targets.numel()

    def scores(self) -> dict[str, float]:
        return {ACCURACY.name: self.right / self.count if self.count else float("nan")}


classification = register("task", "classification")(Classification)
