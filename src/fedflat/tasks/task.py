"""What is learnt: how a module is built for the data, how batches are made, what is lost, and how
it is judged.

A loss is a sum and a count of what was summed over: examples, pixels that are not ignored, letters
of sequences of unequal length. Within a batch, over batches and over a test set the mean is the
whole sum by the whole count, and what counts nothing adds nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from fedflat.data.batch import Batch, Tensors
from fedflat.data.examples import ClientData
from fedflat.data.federation import Federation
from fedflat.errors import SettingError
from fedflat.models.spec import ModelSpec
from fedflat.registry.specs import TextSpec
from fedflat.tasks.headline import Headline

Count = int | Tensor
"""How many things a sum is over, or their weight in all: a number known beforehand, or one
tensor."""


class Meter(Protocol):
    """Adds up over the batches of a test set what scores are made of."""

    def add(self, output: Any, batch: Batch) -> None:
        """One more batch, and what the module has made of it."""
        ...

    def scores(self) -> dict[str, float]:
        """All scores by name, the headline among them; NaN where nothing was counted."""
        ...


@dataclass(frozen=True)
class Supply:
    """What a visit's batches are made from."""

    data: ClientData
    places: Iterable[Tensor]
    """For each step the places of its examples in the client's data."""
    dtype: torch.dtype
    augment: torch.Generator | None
    """What changes images and the like at random, the same for every task."""
    draws: Callable[[], torch.Generator]
    """What makes the task's own random numbers in this visit."""
    output: Callable[[Tensors], Any]
    """What the client's module makes of inputs where it stands now, in evaluation mode; for tasks
    that choose examples by what the model makes of them."""

    @cached_property
    def rng(self) -> torch.Generator:
        """The task's own random numbers in this visit."""
        return self.draws()


class Task(TextSpec, ABC):
    """A frozen dataclass. `headline`, `outputs`, `loss` and `meter` must be written; the rest is as
    usual."""

    headline: ClassVar[Headline]
    classifies: ClassVar[bool] = False
    """Whether each example has one class, and the module gives a row with a score for each
    class."""
    reference: ClassVar[str] = ""
    """The named test set that others are compared with, such as a gallery; it has no scores of its
    own, and the meter has a ``refer(output, batch)`` that is told of it first."""
    weighs: ClassVar[bool] = True
    """Whether clients of unequal counts for each example count by them, where they do not all count
    alike."""
    usual_model: ClassVar[str] = "mlp"
    """The model for those who name none."""

    def model_for(self, shape: tuple[int, ...]) -> str:
        """The text of the model for inputs of that shape, for those who name none."""
        return self.usual_model

    @abstractmethod
    def outputs(self, fed: Federation) -> int:
        """How wide the module's last layer is for these data."""

    def build(self, spec: ModelSpec, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """The module, with torch's current random state."""
        return spec.build(shape, outputs)

    def check(self, fed: Federation, output: Any, batch: Batch) -> None:
        """Refuse a module whose output for a batch does not fit."""
        _one_tensor(output, batch)

    def remark(self, fed: Federation) -> str:
        """What is good to know of these data before the first round; empty if nothing is."""
        return ""

    @property
    def makes_batches(self) -> bool:
        """Whether its batches are more than some examples as they are."""
        return type(self).batches is not Task.batches

    def batches(self, supply: Supply) -> Iterator[Batch]:
        """The batches of a visit, one for each of ``supply.places``."""
        return supply.data.batches(supply.places, supply.dtype, supply.augment)

    @abstractmethod
    def loss(self, output: Any, batch: Batch) -> tuple[Tensor, Count]:
        """The summed loss of a batch, and how many things it is the sum over."""

    def mean(self, output: Any, batch: Batch) -> tuple[Tensor, Count]:
        """The mean loss of a batch, 0 if nothing counts, and how many things it is the mean of."""
        total, count = self.loss(output, batch)
        return total / (
            torch.where(count > 0, count, 1) if isinstance(count, Tensor) else max(count, 1)
        ), count

    @abstractmethod
    def meter(self, outputs: int) -> Meter:
        """A meter for a module of so many outputs, with nothing in it."""


def classes_of(task: Task, fed: Federation) -> int:
    """The number of classes; refused where there are none."""
    if not fed.classes:
        raise SettingError(
            f"{task} tells classes apart, and these data have none. Name another task, such as regression()."
        )
    return fed.classes


def _one_tensor(output: Any, batch: Batch) -> None:
    if not isinstance(output, Tensor):
        raise SettingError(
            f"the model turned a batch of {len(batch)} into {type(output).__name__}; it must give one tensor. Wrap it "
            "in a module that hands out the part to learn from."
        )
