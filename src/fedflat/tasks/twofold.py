"""Two classifiers on the same features: both learn, and their mean is judged.

The module has twice the outputs: the first half of the scores is one classifier's, the second half
the other's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fedflat.data.batch import Batch
from fedflat.data.federation import Federation
from fedflat.errors import SettingError
from fedflat.registry.specs import register
from fedflat.tasks.classification import Classification
from fedflat.tasks.headline import Headline
from fedflat.tasks.segmentation import Segmentation
from fedflat.tasks.task import Count, Meter, Task


def halves(output: Tensor) -> tuple[Tensor, Tensor]:
    """The scores of either classifier."""
    one, other = output.chunk(2, dim=1)
    return one, other


@dataclass(frozen=True, repr=False)
class Twofold(Task):
    """Two classifiers on one network, as ``mcd`` needs: the sum of their losses, and the scores of
    their mean.

    of
        What each of them learns: segmentation(...) or classification().
    """

    of: Task = Segmentation()

    def __post_init__(self) -> None:
        if not isinstance(self.of, Segmentation | Classification):
            raise SettingError(
                f"twofold: of must be segmentation(...) or classification(), found {self.of!r}."
            )

    @property
    def headline(self) -> Headline:  # type: ignore[override]
        """That of each."""
        return self.of.headline

    def model_for(self, shape: tuple[int, ...]) -> str:
        """That of each."""
        return self.of.model_for(shape)

    def outputs(self, fed: Federation) -> int:
        """Twice as many."""
        return 2 * self.of.outputs(fed)

    def check(self, fed: Federation, output: Any, batch: Batch) -> None:
        """As each of them, of one tensor."""
        super().check(fed, output, batch)
        for half in halves(output):
            self.of.check(fed, half, batch)

    def loss(self, output: Tensor, batch: Batch) -> tuple[Tensor, Count]:
        """The sum of both losses."""
        (one, count), (other, _) = (self.of.loss(half, batch) for half in halves(output))
        return one + other, count

    def meter(self, outputs: int) -> Both:
        """See `Both`."""
        return Both(self.of.meter(outputs // 2))


class Both:
    """Judges the mean of two classifiers' probabilities."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter

    def add(self, output: Tensor, batch: Batch) -> None:
        """One more batch."""
        one, other = (half.softmax(1) for half in halves(output))
        self.meter.add((one + other) / 2, batch)

    def scores(self) -> dict[str, float]:
        """Those of each."""
        return self.meter.scores()


twofold = register("task", "twofold")(Twofold)
