"""FedDecorr: a penalty on correlated features, against their collapse.

Shi et al., Towards Understanding and Mitigating Dimensional Collapse in Heterogeneous Federated
Learning, ICLR 2023.

    F     the batch's features (N x d, the input of the last layer), each column minus its mean and
          divided by sqrt(its unbiased variance + 1e-8);   R = F^T F
    loss  <- loss + coef (1/N) mean of the squares of R outside its diagonal

A batch of one example has no term. ``R`` is N - 1 times the correlation, so the term grows with the
batch; we keep it as published.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedflat.client.features import check_last_layer, observed_features
from fedflat.client.piece import ClientContext, ModelInfo, Term
from fedflat.composition.method import made_of
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.data.batch import Batch
from fedflat.errors import SettingError


def correlation_penalty(features: Tensor) -> Tensor:
    """Return the mean square of ``R`` outside its diagonal, over N.

    >>> rows = torch.tensor([[1.0, 2.0], [2.0, 1.0], [3.0, 3.5]], dtype=torch.float64)
    >>> round(float(correlation_penalty(rows)), 7)
    0.4736842
    """
    count, width = features.shape
    centred = features - features.mean(dim=0)
    scaled = centred / (centred.square().sum(dim=0) / (count - 1) + 1e-8).sqrt()
    products = scaled.mT @ scaled
    outside = 1 - torch.eye(width, dtype=products.dtype, device=products.device)
    return (products * outside).square().sum() / (width * (width - 1)) / count


@dataclass(frozen=True, repr=False)
class Decorrelation(Term):
    """``coef`` times the penalty on correlated features.

    coef
        Weight of the penalty, at least 0.
    """

    coef: Scalar = 0.1

    key = "feddecorr"
    stackable = True

    def __post_init__(self) -> None:
        scalar("feddecorr", "coef", self.coef)

    def check(self, model_info: ModelInfo) -> None:
        """Refuse a network without several features before a linear last layer."""
        check_last_layer("feddecorr", model_info)
        if model_info.layout.shapes[-1] and model_info.layout.shapes[-2][-1:] == (1,):
            raise SettingError("feddecorr compares features, and the last layer has only one.")

    def hooks(self, module: nn.Module) -> AbstractContextManager[list[Tensor]]:
        """Collect the features."""
        return observed_features(module)

    def loss(self, v: ClientContext, batch: Batch, output: Tensor, seen: list[Tensor]) -> Tensor:
        """Return the value of the term."""
        if len(seen[0]) < 2:
            return output.new_zeros(())
        return at(self.coef, v.round) * correlation_penalty(seen[0])


@made_of(Decorrelation)
def feddecorr() -> None:
    """A penalty on correlated features (Shi et al., ICLR 2023)."""
