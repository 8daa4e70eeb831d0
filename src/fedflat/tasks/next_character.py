"""Prediction of the next character of a text: cross entropy, accuracy and perplexity.

Inputs are indices of characters ``(N, T)``. Targets are the next characters, at every position
``(N, T)`` or after the last one only ``(N,)``. The model gives one row of scores per target. Texts
of unequal length are padded with the target ``ignore``, which is not counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn.functional import cross_entropy

from fedflat.data.examples import Batch
from fedflat.data.federation import Federation
from fedflat.errors import SettingError, number
from fedflat.registry.specs import register
from fedflat.tasks.headline import Headline
from fedflat.tasks.task import Task, classes_of

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
