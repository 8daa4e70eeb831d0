"""Pieces that change the batch: mixup and cutout.

Zhang et al., mixup: Beyond Empirical Risk Minimization, ICLR 2018.
DeVries and Taylor, Improved Regularization of Convolutional Neural Networks with Cutout, 2017.

All gradients of a step use the same changed batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedflat.client.piece import ClientContext, ModelInfo, Piece
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.data import augment
from fedflat.data.examples import Batch, arguments
from fedflat.errors import SettingError, number


@dataclass(frozen=True, repr=False)
class Mixup(Piece):
    """Blends each example and its loss with another one of its batch.

    The weight ``lam ~ Beta(alpha, alpha)`` is one per batch.
    """

    alpha: Scalar = 1.0

    stage, key = Stage.BATCH, "mixup"
    stackable = True

    def __post_init__(self) -> None:
        scalar("mixup", "alpha", self.alpha, open_low=True)

    def check(self, model_info: ModelInfo) -> None:
        """Refuse tasks that build their own batches, and inputs that are whole numbers."""
        if model_info.task.makes_batches:
            raise SettingError(
                f"mixup blends examples, but {model_info.task} builds batches of its own. Leave it out."
            )
        if model_info.sample is not None and not all(
            x.is_floating_point() for x in arguments(model_info.sample)
        ):
            raise SettingError(
                "mixup blends inputs, but the inputs of these data are whole numbers. Leave it out."
            )

    def batch(self, v: ClientContext, batch: Batch) -> Batch:
        alpha = at(self.alpha, v.round)
        return v.transform(batch, lambda one, rng: augment.mixup(one, alpha, rng))


@dataclass(frozen=True, repr=False)
class Cutout(Piece):
    """Sets one square of ``side`` pixels in each normalised image to 0.

    Squares may cross the border.
    """

    side: int = 16

    stage, key = Stage.BATCH, "cutout"
    stackable = True

    def __post_init__(self) -> None:
        number("cutout", "side", self.side, low=1, whole=True)

    def batch(self, v: ClientContext, batch: Batch) -> Batch:
        """Return the batch with squares set to 0."""
        return v.transform(
            batch, lambda one, rng: replace(one, inputs=augment.cutout(one.first, self.side, rng))
        )
