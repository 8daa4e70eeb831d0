"""The interface of tasks: module, batches, loss and scores.

A loss is a sum and the number of things it sums over: examples, pixels that are not ignored, or
characters of sequences of unequal length. The mean over a batch, over batches or over a test set is
always the total sum divided by the total number.

A batch with ``n`` of ``N`` examples and a count of ``c`` is added with the weight ``n / N * (c /
n)``. At the end the sum is divided by ``C / N``. If every example counts once, these factors are
exactly 1, and the result equals a mean over examples bit for bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from fedflat.data.examples import Batch, ClientData, Tensors
from fedflat.data.federation import Federation
from fedflat.errors import SettingError
from fedflat.models.spec import ModelSpec
from fedflat.registry.specs import TextSpec
from fedflat.tasks.headline import Headline

Count = int | Tensor
"""Number of things in a sum, or their total weight.
"""


class Meter(Protocol):
    """Accumulates scores over the batches of a test set."""

    def add(self, output: Any, batch: Batch) -> None:
        """Add one batch and the model's output for it."""
        ...

    def scores(self) -> dict[str, float]:
        """All scores by name, including the headline; NaN where nothing was counted."""
        ...


@dataclass(frozen=True)
class Supply:
    """What the batches of local training are made from.

    data
        The client's examples.
    dtype
        The number type of the inputs.
    """

    data: ClientData
    places: Iterable[Tensor]
    """For each step, the positions of its examples in the client's data."""
    dtype: torch.dtype
    augment: torch.Generator | None
    """Generator of the augmentation, the same for every task."""
    draws: Callable[[], torch.Generator]
    """Creates the generator of the task's own random numbers."""
    output: Callable[[Tensors], Any]
    """The output of the client's current model in evaluation mode, for tasks that select examples
    by it."""

    @cached_property
    def rng(self) -> torch.Generator:
        """The task's own random numbers."""
        return self.draws()


class Task(TextSpec, ABC):
    """A frozen dataclass; `headline`, `outputs`, `loss` and `meter` must be defined."""

    headline: ClassVar[Headline]
    classifies: ClassVar[bool] = False
    """True if each example has one class and the model gives one score per class."""
    reference: ClassVar[str] = ""
    """The test set with which others are compared, such as a gallery.

    It has no scores of its own. The meter gets it first, through ``refer(output, batch)``.
    """
    weighs: ClassVar[bool] = True
    """True if clients may be weighted by their counts instead of their examples."""
    usual_model: ClassVar[str] = "mlp"
    """The default model."""

    def model_for(self, shape: tuple[int, ...]) -> str:
        """The text of the default model for inputs of that shape."""
        return self.usual_model

    @abstractmethod
    def outputs(self, fed: Federation) -> int:
        """Width of the model's last layer for these data."""

    def build(self, spec: ModelSpec, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """Build the model, initialized from PyTorch's current random state."""
        return spec.build(shape, outputs)

    @property
    def segments(self) -> bool:
        """True if each pixel has one class, so that predictions are masks."""
        return False

    @property
    def ignored_label(self) -> int:
        """The label of targets that are not scored, -1 if there is none."""
        return -1

    def check(self, fed: Federation, output: Any, batch: Batch) -> None:
        """Refuse a model whose output for a batch does not fit."""
        _one_tensor(output, batch)

    def remark(self, fed: Federation) -> str:
        """A warning about these data before the first round; empty if there is none."""
        return ""

    def epoch_size(self, data: ClientData) -> int:
        """The number of examples of a local epoch: all, unless some only serve for comparison."""
        return len(data)

    @property
    def trains_on_all(self) -> bool:
        """True if a local epoch has all examples of a client."""
        return type(self).epoch_size is Task.epoch_size

    def reference_rows(self, targets: Any) -> Tensor | None:
        """True for examples that others are compared with, such as a database; None without any.

        They have no score of their own, and every part of a test set is compared with all of them.
        """
        return None

    @property
    def makes_batches(self) -> bool:
        """True if batches are more than a selection of examples."""
        return type(self).batches is not Task.batches

    def batches(self, supply: Supply) -> Iterator[Batch]:
        """The batches of local training, one for each of ``supply.places``."""
        return supply.data.batches(supply.places, supply.dtype, supply.augment)

    @abstractmethod
    def loss(self, output: Any, batch: Batch) -> tuple[Tensor, Count]:
        """The summed loss of a batch, and the number of things it sums over."""

    def mean(self, output: Any, batch: Batch) -> tuple[Tensor, Count]:
        """The mean loss of a batch (0 if nothing counts), and the number of things in it."""
        total, count = self.loss(output, batch)
        return total / (
            torch.where(count > 0, count, 1) if isinstance(count, Tensor) else max(count, 1)
        ), count

    @abstractmethod
    def meter(self, outputs: int) -> Meter:
        """A new meter for a model with this number of outputs."""


def classes_of(task: Task, fed: Federation) -> int:
    """The number of classes; an error if the data have no classes."""
    if not fed.classes:
        raise SettingError(
            f"{task} needs classes, and these data have none. Choose another task, such as "
            "regression()."
        )
    return fed.classes


def _one_tensor(output: object, batch: Batch) -> None:
    if not isinstance(output, Tensor):
        raise SettingError(
            f"the model turned a batch of {len(batch)} into {type(output).__name__}; it must give "
            "one tensor. Wrap it in a module that returns the part to learn from."
        )


class Average:
    """Weights of batches out of ``examples`` examples, and the final division."""

    def __init__(self, examples: int) -> None:
        self.examples, self.counted = examples, 0.0 * examples
        self._counted_tensors: Tensor | None = None

    def weight(self, examples: int, count: Count | float) -> Any:
        """The weight of a batch: a number, or a tensor if ``count`` is one."""
        share = examples / self.examples
        if isinstance(count, Tensor):
            part = count.to(torch.float64)
            self._counted_tensors = (
                part if self._counted_tensors is None else self._counted_tensors + part
            )
            return share * (part / examples)
        self.counted += count
        return share * (count / examples)

    def add(self, total: Tensor, part: Tensor, examples: int, count: Count) -> None:
        """Add a batch's vector to ``total``; in stacks, each row with its own weight."""
        weight = self.weight(examples, count)
        if isinstance(weight, Tensor):
            total.add_(part * _along(weight, part))
        else:
            total.add_(part, alpha=weight)

    @property
    def scale(self) -> float:
        """The divisor at the end, if all counts were numbers."""
        return self.counted / self.examples or 1.0

    def finish(self, total: Tensor) -> Tensor:
        """Divide the complete sum by the total weight, in place."""
        if self._counted_tensors is None:
            return total.div_(self.scale)
        scales = (self._counted_tensors + self.counted) / self.examples
        return total.div_(_along(torch.where(scales > 0, scales, 1.0), total))


def _along(weight: Tensor, like: Tensor) -> Tensor:
    return weight.to(like.dtype).reshape(*weight.shape, *(1,) * (like.dim() - weight.dim()))
