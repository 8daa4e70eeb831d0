"""A task whose loss is a Python function of outputs and targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from fedflat.data.examples import Batch, ClientData
from fedflat.data.federation import Federation
from fedflat.models.spec import ModelSpec
from fedflat.tasks.headline import Headline
from fedflat.tasks.task import Meter, Supply, Task

LossFn = Callable[[Any, Any], Tensor]
"""Maps outputs and targets to the mean loss."""


@dataclass(frozen=True, repr=False)
class OwnLoss(Task):
    """A task with a user-defined loss.

    Outputs that do not fit the task, such as one output for a classification, are trained and get
    no score but the loss.
    """

    like: Task
    given: LossFn

    @property
    def reference(self) -> str:  # type: ignore[override]
        return self.like.reference

    @property
    def headline(self) -> Headline:  # type: ignore[override]
        return self.like.headline

    @property
    def weighs(self) -> bool:  # type: ignore[override]
        return self.like.weighs

    @property
    def classifies(self) -> bool:  # type: ignore[override]
        return self.like.classifies

    def outputs(self, fed: Federation) -> int:
        return self.like.outputs(fed)

    def build(self, spec: ModelSpec, shape: tuple[int, ...], outputs: int) -> nn.Module:
        return self.like.build(spec, shape, outputs)

    def epoch_size(self, data: ClientData) -> int:
        return self.like.epoch_size(data)

    def reference_rows(self, targets: Any) -> Tensor | None:
        return self.like.reference_rows(targets)

    @property
    def makes_batches(self) -> bool:
        return self.like.makes_batches

    def batches(self, supply: Supply) -> Iterator[Batch]:
        return self.like.batches(supply)

    def check(self, fed: Federation, output: Any, batch: Batch) -> None:
        """Accept everything but outputs that are not tensors."""
        Task.check(self, fed, output, batch)

    def loss(self, output: Any, batch: Batch) -> tuple[Tensor, int]:
        """The mean loss times the number of examples, and that number."""
        mean, count = self.mean(output, batch)
        return mean * count, count

    def mean(self, output: Any, batch: Batch) -> tuple[Tensor, int]:
        """The mean loss, and the number of examples."""
        return self.given(output, batch.targets), len(batch)

    def meter(self, outputs: int) -> Meter:
        """The task's meter, skipped for outputs that do not fit."""
        return _OptionalMeter(self.like, outputs)


class _OptionalMeter:
    """The scores of a task, or none once an output does not fit."""

    def __init__(self, task: Task, outputs: int) -> None:
        self.task, self.meter, self.fits = task, task.meter(outputs), True

    def add(self, output: Any, batch: Batch) -> None:
        """Count one batch, if it fits."""
        if self.task.classifies:
            rows = isinstance(output, Tensor) and output.dim() == 2 and output.shape[1] > 1
            self.fits = self.fits and rows and not batch.labels.is_floating_point()
        if self.fits:
            self.meter.add(output, batch)

    def scores(self) -> dict[str, float]:
        """The task's scores, or none."""
        return self.meter.scores() if self.fits else {}
