"""Pieces that change the batch: mixup and cutout. Ascent and descent of a step see the same changed
batch.

Zhang et al., mixup: Beyond Empirical Risk Minimization, ICLR 2018.
DeVries and Taylor, Improved Regularization of Convolutional Neural Networks with Cutout, 2017.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedflat.client.piece import ClientContext, ModelInfo, Piece
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.data import augment
from fedflat.data.batch import Batch, arguments
from fedflat.errors import SettingError, number


@dataclass(frozen=True, repr=False)
class Mixup(Piece):
    """Blends each example with another of its batch by one ``lam ~ Beta(alpha, alpha)``, and their
    losses alike."""

    alpha: Scalar = 1.0

    stage, key = Stage.BATCH, "mixup"
    stackable = True

    def __post_init__(self) -> None:
        scalar("mixup", "alpha", self.alpha, open_low=True)

    def check(self, site: ModelInfo) -> None:
        """Refuse batches that are more than examples, and inputs that lie on no line."""
        if site.task.makes_batches:
            raise SettingError(
                f"mixup blends examples, and the batches of {site.task} are more. Leave it out."
            )
        if site.sample is not None and not all(
            x.is_floating_point() for x in arguments(site.sample)
        ):
            raise SettingError(
                "mixup blends inputs, and those of these data are whole numbers. Leave it out."
            )

    def batch(self, v: ClientContext, batch: Batch) -> Batch:
        """The blended batch."""
        alpha = at(self.alpha, v.round)
        return v.transform(batch, lambda one, rng: augment.mixup(one, alpha, rng))


@dataclass(frozen=True, repr=False)
class Cutout(Piece):
    """Blanks one square of ``side`` pixels in each normalised image; squares may hang over the
    border."""

    side: int = 16

    stage, key = Stage.BATCH, "cutout"
    stackable = True

    def __post_init__(self) -> None:
        number("cutout", "side", self.side, low=1, whole=True)

    def batch(self, v: ClientContext, batch: Batch) -> Batch:
        """The batch with squares blanked."""
        return v.transform(
            batch, lambda one, rng: replace(one, inputs=augment.cutout(one.first, self.side, rng))
        )
