"""Two classifiers on the same features: both are trained, and their mean is evaluated.

The model has twice the outputs. The first half of the scores belongs to one classifier, the second
half to the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fedflat.data.examples import Batch
from fedflat.data.federation import Federation
from fedflat.errors import SettingError
from fedflat.registry.specs import register
from fedflat.tasks.classification import Classification
from fedflat.tasks.headline import Headline
from fedflat.tasks.segmentation import Segmentation
from fedflat.tasks.task import Count, Meter, Task


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
