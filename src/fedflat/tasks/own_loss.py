"""A task whose loss was given in Python, as a function of outputs and targets: their mean is taken
as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from fedflat.data.batch import Batch
from fedflat.data.federation import Federation
from fedflat.models.spec import ModelSpec
from fedflat.tasks.headline import Headline
from fedflat.tasks.task import Meter, Supply, Task

LossFn = Callable[[Any, Any], Tensor]
"""From outputs and targets to the mean loss."""


@dataclass(frozen=True, repr=False)
class OwnLoss(Task):
    """Another task with a loss of one's own. What it does not fit, such as one output for a
    classification, is trained and has no score but its loss."""

    like: Task
    given: LossFn

    @property
    def reference(self) -> str:  # type: ignore[override]
        """As the task has it."""
        return self.like.reference

    @property
    def headline(self) -> Headline:  # type: ignore[override]
        """That of the task."""
        return self.like.headline

    @property
    def weighs(self) -> bool:  # type: ignore[override]
        """As the task does."""
        return self.like.weighs

    @property
    def classifies(self) -> bool:  # type: ignore[override]
        """As the task does."""
        return self.like.classifies

    def outputs(self, fed: Federation) -> int:
        """As the task has."""
        return self.like.outputs(fed)

    def build(self, spec: ModelSpec, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """As the task does."""
        return self.like.build(spec, shape, outputs)

    @property
    def makes_batches(self) -> bool:
        """As the task does."""
        return self.like.makes_batches

    def batches(self, supply: Supply) -> Iterator[Batch]:
        """As the task does."""
        return self.like.batches(supply)

    def check(self, fed: Federation, output: Any, batch: Batch) -> None:
        """Whatever the loss can take."""
        Task.check(self, fed, output, batch)

    def loss(self, output: Any, batch: Batch) -> tuple[Tensor, int]:
        """The mean, times the examples."""
        mean, count = self.mean(output, batch)
        return mean * count, count

    def mean(self, output: Any, batch: Batch) -> tuple[Tensor, int]:
        """The mean as it is; every example counts."""
        return self.given(output, batch.targets), len(batch)

    def meter(self, outputs: int) -> Meter:
        """That of the task, where its outputs are such."""
        return _Where(self.like, outputs)


class _Where:
    """The scores of a task, or none once an output was met that has none."""

    def __init__(self, task: Task, outputs: int) -> None:
        self.task, self.meter, self.fits = task, task.meter(outputs), True

    def add(self, output: Any, batch: Batch) -> None:
        """Count what can be counted."""
        if self.task.classifies:
            rows = isinstance(output, Tensor) and output.dim() == 2 and output.shape[1] > 1
            self.fits = self.fits and rows and not batch.labels.is_floating_point()
        if self.fits:
            self.meter.add(output, batch)

    def scores(self) -> dict[str, float]:
        """All, or none."""
        return self.meter.scores() if self.fits else {}
