"""FedDecorr: a penalty on correlated features, against their collapse.

Shi et al., Towards Understanding and Mitigating Dimensional Collapse in Heterogeneous Federated
Learning, ICLR 2023.

    F     the batch's features (N x d, the input of the last layer), each column minus its mean and
          divided by sqrt(its unbiased variance + 1e-8);   R = F^T F
    loss  <- loss + coef (1/N) mean of the squares of R outside its diagonal

A batch of one example has no term. This is the term of the authors' code, the default here. ``R`` is
N - 1 times the matrix of correlations ``K``, so it grows with the batch. The paper's term is the
squared Frobenius norm of ``K`` over ``d^2``: ``scale="paper"``, here without the diagonal, which is
constant. With the same ``coef`` the code's term is ``(N - 1)^2 d / (N (d - 1))`` times the paper's.
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
from fedflat.data.examples import Batch
from fedflat.errors import SettingError, choice


def correlation_penalty(features: Tensor, scale: str = "repo") -> Tensor:
    """Return the mean square of ``R`` outside its diagonal, over N; or the paper's term.

    >>> rows = torch.tensor([[1.0, 2.0], [2.0, 1.0], [3.0, 3.5]], dtype=torch.float64)
    >>> round(float(correlation_penalty(rows)), 7)
    0.4736842
    >>> round(float(correlation_penalty(rows, "paper")), 7)
    0.1776316
    """
    count, width = features.shape
    centred = features - features.mean(dim=0)
    scaled = centred / (centred.square().sum(dim=0) / (count - 1) + 1e-8).sqrt()
    products = scaled.mT @ scaled
    outside = 1 - torch.eye(width, dtype=products.dtype, device=products.device)
    total = (products * outside).square().sum()
    if scale == "paper":
        return total / (count - 1) ** 2 / width**2
    return total / (width * (width - 1)) / count


@dataclass(frozen=True, repr=False)
class Decorrelation(Term):
    """``coef`` times the penalty on correlated features.

    coef
        Weight of the penalty, at least 0.
    scale
        "repo": as in the authors' code; or "paper", which does not grow with the batch.
    """

    coef: Scalar = 0.1
    scale: str = "repo"

    key = "feddecorr"
    stackable = True

    def __post_init__(self) -> None:
        scalar("feddecorr", "coef", self.coef)
        choice("feddecorr", "scale", self.scale, ["repo", "paper"])

    def check(self, model_info: ModelInfo) -> None:
        """Refuse a network without several features before a linear last layer."""
        check_last_layer("feddecorr", model_info)
        if model_info.layout.shapes[-1] and model_info.layout.shapes[-2][-1:] == (1,):
            raise SettingError("feddecorr compares features, and the last layer has only one.")

    def hooks(self, module: nn.Module) -> AbstractContextManager[list[Tensor]]:
        return observed_features(module)

    def loss(self, v: ClientContext, batch: Batch, output: Tensor, seen: list[Tensor]) -> Tensor:
        if len(seen[0]) < 2:
            return output.new_zeros(())
        return at(self.coef, v.round) * correlation_penalty(seen[0], self.scale)


@made_of(Decorrelation)
def feddecorr() -> None:
    """A penalty on correlated features (Shi et al., ICLR 2023)."""
