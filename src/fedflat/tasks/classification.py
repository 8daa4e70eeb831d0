"""Classification, regression, and prediction of the next character of a text.

Inputs of next characters are indices of characters ``(N, T)``. Targets are the next characters, at
every position ``(N, T)`` or after the last one only ``(N,)``. The model gives one row of scores per
target. Texts of unequal length are padded with the target ``ignore``, which is not counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedflat.data.examples import Batch, leading
from fedflat.data.federation import Federation
from fedflat.errors import SettingError, number
from fedflat.registry.specs import register
from fedflat.tasks.headline import ACCURACY, Headline
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


CHARACTER_ACCURACY = Headline("accuracy", label="character accuracy", unit="%", factor=100.0)


@dataclass(frozen=True, repr=False)
class NextCharacter(Task):
    """The next character at each position. The headline score is accuracy.

    Positions whose target is ``ignore`` are skipped.

    special
        How many of the last indices are no words, such as an unknown word and the end. With any,
        ``word_accuracy`` is the accuracy of the other targets.
    """

    ignore: int = -1
    special: int = 0

    headline = CHARACTER_ACCURACY
    usual_model = "char_lstm"

    def __post_init__(self) -> None:
        number("next_character", "ignore", self.ignore, low=-(2**31), high=2**31, whole=True)
        number("next_character", "special", self.special, low=0, high=2**31, whole=True)

    def outputs(self, fed: Federation) -> int:
        return classes_of(self, fed)

    def check(self, fed: Federation, output: Any, batch: Batch) -> None:
        """Refuse outputs without a row of scores per target."""
        super().check(fed, output, batch)
        targets = batch.labels
        if (
            targets.is_floating_point()
            or output.shape[:-1] != targets.shape
            or output.shape[-1] < fed.classes
        ):
            raise SettingError(
                f"next_character: the model gives {tuple(output.shape)} for targets of "
                f"{tuple(targets.shape)}, {targets.dtype}; a row of {fed.classes} scores for each "
                "letter to come is needed. Use data of texts and a model for them, such as "
                "char_lstm()."
            )

    def loss(self, output: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Summed cross entropy of the targets that count, and their number."""
        scores, targets = output.reshape(-1, output.shape[-1]), batch.targets.reshape(-1)
        return cross_entropy(scores, targets, ignore_index=self.ignore, reduction="sum"), (
            targets != self.ignore
        ).sum()

    def meter(self, outputs: int) -> CharacterMeter:
        return CharacterMeter(self, outputs)


class CharacterMeter:
    """Sums up the loss and counts correct characters."""

    def __init__(self, task: NextCharacter, outputs: int) -> None:
        self.task, self.lost, self.right, self.count = task, 0.0, 0, 0
        self.end_of_words, self.right_words, self.words = outputs - task.special, 0, 0

    def add(self, output: Tensor, batch: Batch) -> None:
        total, count = self.task.loss(output.double(), batch)
        counted = batch.targets != self.task.ignore
        right = (output.argmax(-1) == batch.targets) & counted
        self.right += int(right.sum())
        words = counted & (batch.targets < self.end_of_words)
        self.right_words += int((right & words).sum())
        self.words += int(words.sum())
        self.lost, self.count = self.lost + float(total), self.count + int(count)

    def scores(self) -> dict[str, float]:
        """The accuracy, the perplexity (e to the mean loss), and the accuracy of words, if
        asked."""
        found = {CHARACTER_ACCURACY.name: math.nan, "perplexity": math.nan}
        if self.count:
            mean = self.lost / self.count
            found = {
                CHARACTER_ACCURACY.name: self.right / self.count,
                "perplexity": math.exp(mean) if mean < 700 else math.inf,
            }
        if self.task.special:
            found["word_accuracy"] = self.right_words / self.words if self.words else math.nan
        return found


next_character = register("task", "next_character")(NextCharacter)


RMSE = Headline("rmse", label="RMSE", higher_is_better=False)


@dataclass(frozen=True, repr=False)
class Regression(Task):
    """One or more numbers per example. The headline score is the root mean squared error."""

    headline = RMSE

    def outputs(self, fed: Federation) -> int:
        """One output per target of an example."""
        return leading(fed.test.examples.targets).shape[1:].numel()

    def check(self, fed: Federation, output: Any, batch: Batch) -> None:
        """Refuse outputs without one number per target."""
        super().check(fed, output, batch)
        targets = batch.labels
        if (
            not targets.is_floating_point()
            or output.shape[0] != len(targets)
            or output.numel() != targets.numel()
        ):
            raise SettingError(
                f"regression: the model gives {tuple(output.shape)} for targets of "
                f"{tuple(targets.shape)}, {targets.dtype}; targets must be floats, with one "
                "output for each. Make the last layer as wide as an example has targets."
            )

    def loss(self, output: Tensor, batch: Batch) -> tuple[Tensor, int]:
        """Summed squared error and the number of targets."""
        return (
            output.reshape(batch.targets.shape) - batch.targets
        ).square().sum(), batch.targets.numel()

    def meter(self, outputs: int) -> RegressionMeter:
        return RegressionMeter()


class RegressionMeter:
    """Sums up squared errors and keeps the targets, because R2 needs their mean."""

    def __init__(self) -> None:
        self.errors: list[Tensor] = []
        self.targets: list[Tensor] = []

    def add(self, output: Tensor, batch: Batch) -> None:
        targets = batch.targets.double().reshape(len(batch.targets), -1)
        self.errors.append((output.double().reshape(targets.shape) - targets).square().sum(0).cpu())
        self.targets.append(targets.cpu())

    def scores(self) -> dict[str, float]:
        """The root mean squared error, and R2: 1 - errors / spread, the mean over targets."""
        if not self.targets:
            return {RMSE.name: math.nan, "r2": math.nan}
        errors, targets = torch.stack(self.errors).sum(0), torch.cat(self.targets)
        spread = (targets - targets.mean(0)).square().sum(0)
        rmse = math.sqrt(float(errors.sum()) / targets.numel())
        return {RMSE.name: rmse, "r2": float((1 - errors / spread).mean())}


regression = register("task", "regression")(Regression)
