"""Tasks around another task: with a loss of the user, or with two classifiers.

A loss of the user is a Python function of outputs and targets. Two classifiers on the same features
are both trained, and their mean is evaluated. The model then has twice the outputs. The first half
of the scores belongs to one classifier, the second half to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from fedflat.data.examples import Batch, ClientData
from fedflat.data.federation import Federation
from fedflat.errors import SettingError
from fedflat.models.spec import ModelSpec
from fedflat.registry.specs import register
from fedflat.tasks.classification import Classification
from fedflat.tasks.headline import Headline
from fedflat.tasks.segmentation import Segmentation
from fedflat.tasks.task import Count, Meter, Supply, Task

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


def halves(output: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """The scores of both classifiers."""
    if not isinstance(output, Tensor):
        raise SettingError(
            f"twofold: the model gives {len(output)} outputs, but two classifiers need one. "
            "Leave out auxiliary heads: bisenetv2(auxiliary=False)."
        )
    first, second = output.chunk(2, dim=1)
    return first, second


@dataclass(frozen=True, repr=False)
class Twofold(Task):
    """Two classifiers on one network, as ``mcd`` needs: sum of both losses, scores of their mean.

    of
        The task of each: segmentation(...) or classification().
    """

    of: Task = Segmentation()

    def __post_init__(self) -> None:
        if not isinstance(self.of, Segmentation | Classification):
            raise SettingError(
                f"twofold: of must be segmentation(...) or classification(), found {self.of!r}."
            )

    @property
    def headline(self) -> Headline:  # type: ignore[override]
        """See the task ``of``."""
        return self.of.headline

    def model_for(self, shape: tuple[int, ...]) -> str:
        return self.of.model_for(shape)

    def outputs(self, fed: Federation) -> int:
        """Twice the outputs of the task ``of``."""
        return 2 * self.of.outputs(fed)

    def check(self, fed: Federation, output: Any, batch: Batch) -> None:
        """Check both halves of the output."""
        super().check(fed, output, batch)
        for half in halves(output):
            self.of.check(fed, half, batch)

    def loss(self, output: Tensor, batch: Batch) -> tuple[Tensor, Count]:
        (first, count), (second, _) = (self.of.loss(half, batch) for half in halves(output))
        return first + second, count

    def meter(self, outputs: int) -> Both:
        """The meter of the task ``of`` for the mean of both classifiers."""
        return Both(self.of.meter(outputs // 2))


class Both:
    """Scores of the mean of two classifiers' probabilities."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter

    def add(self, output: Tensor, batch: Batch) -> None:
        first, second = (half.softmax(1) for half in halves(output))
        self.meter.add((first + second) / 2, batch)

    def scores(self) -> dict[str, float]:
        """The scores of the mean."""
        return self.meter.scores()


twofold = register("task", "twofold")(Twofold)
