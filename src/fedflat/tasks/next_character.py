"""The next letter at each place of a text: cross entropy a letter, the share guessed rightly, and
the perplexity.

Inputs are numbers of letters ``(N, T)``; targets are those that come next, at every place ``(N,
T)`` or after the last one only ``(N,)``. The module gives a row of scores for each target. Texts of
unequal length are filled up with ``ignore``, which counts nowhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn.functional import cross_entropy

from fedflat.data.batch import Batch
from fedflat.data.federation import Federation
from fedflat.errors import SettingError, number
from fedflat.registry.specs import register
from fedflat.tasks.headline import Headline
from fedflat.tasks.task import Task, classes_of

GUESSED = Headline("accuracy", label="character accuracy", unit="%", factor=100.0)


@dataclass(frozen=True, repr=False)
class NextCharacter(Task):
    """The next letter at each place; targets ``ignore`` count nowhere. Judged by the share guessed
    rightly."""

    ignore: int = -1

    headline = GUESSED
    usual_model = "char_lstm"

    def __post_init__(self) -> None:
        number("next_character", "ignore", self.ignore, low=-(2**31), high=2**31, whole=True)

    def outputs(self, fed: Federation) -> int:
        """A score for each letter."""
        return classes_of(self, fed)

    def check(self, fed: Federation, output: Any, batch: Batch) -> None:
        """A row of scores for each target."""
        super().check(fed, output, batch)
        targets = batch.labels
        if (
            targets.is_floating_point()
            or output.shape[:-1] != targets.shape
            or output.shape[-1] < fed.classes
        ):
            raise SettingError(
                f"next_character: the model gives {tuple(output.shape)} for targets of {tuple(targets.shape)}, "
                f"{targets.dtype}; a row of {fed.classes} scores for each letter to come is needed. Use data of texts "
                "and a model for them, such as char_lstm()."
            )

    def loss(self, output: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Cross entropy of the letters that count."""
        scores, targets = output.reshape(-1, output.shape[-1]), batch.targets.reshape(-1)
        return cross_entropy(scores, targets, ignore_index=self.ignore, reduction="sum"), (
            targets != self.ignore
        ).sum()

    def meter(self, outputs: int) -> CharacterMeter:
        """See `Letters`."""
        return CharacterMeter(self)


class CharacterMeter:
    """Adds up the loss of letters, and how many were guessed rightly."""

    def __init__(self, task: NextCharacter) -> None:
        self.task, self.lost, self.right, self.count = task, 0.0, 0, 0

    def add(self, output: Tensor, batch: Batch) -> None:
        """Look at the letter with the largest score."""
        total, count = self.task.loss(output.double(), batch)
        counted = batch.targets != self.task.ignore
        self.right += int(((output.argmax(-1) == batch.targets) & counted).sum())
        self.lost, self.count = self.lost + float(total), self.count + int(count)

    def scores(self) -> dict[str, float]:
        """The share guessed rightly, and e to the mean loss of a letter."""
        if not self.count:
            return {GUESSED.name: math.nan, "perplexity": math.nan}
        mean = self.lost / self.count
        return {
            GUESSED.name: self.right / self.count,
            "perplexity": math.exp(mean) if mean < 700 else math.inf,
        }


next_character = register("task", "next_character")(NextCharacter)
