"""MCD: features are adapted by the discrepancy of two classifiers.

Saito et al., Maximum Classifier Discrepancy for Unsupervised Domain Adaptation, CVPR 2018,
arXiv:1712.02560.

    features   fit the labelled half of the batch, and lower d on the other half
    F_1, F_2   fit the labelled half, and raise d on the other half
    d          mean over pixels and classes of |softmax(F_1) - softmax(F_2)|

The paper alternates three steps and repeats the last one. Here they are one step: the gradient is
reversed where the images without labels enter the last layer (an option of the authors' code), so
that one step raises d by the classifiers and lowers it by the features. It needs `twofold(...)` for
the task and `with_source(...)` for the data: the second half of each batch has no labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fedflat.client.piece import ClientContext, ModelInfo, Term
from fedflat.composition.method import made_of
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.data.batch import Batch
from fedflat.errors import SettingError
from fedflat.tasks.twofold import Twofold, halves


class Turned(torch.autograd.Function):
    """The identity whose gradient is reversed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return the input."""
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Return the negative gradient."""
        return -gradients[0]


@dataclass(frozen=True, repr=False)
class Discrepancy(Term):
    """``weight`` times the classifiers' disagreement on the half without labels.

    Classifiers raise it and features lower it.
    """

    weight: Scalar = 1.0

    key = "mcd"

    def __post_init__(self) -> None:
        scalar("mcd", "weight", self.weight)

    def check(self, site: ModelInfo) -> None:
        """Refuse a task with one classifier."""
        if not isinstance(site.task, Twofold):
            raise SettingError(
                f"mcd needs two classifiers, but {site.task} has one. Use --task 'twofold(...)'."
            )

    @contextmanager
    def hooks(self, module: nn.Module) -> Iterator[None]:
        """Reverse the gradient where the second half of the images enters the last layer."""
        *_, name = (name for name, _ in module.named_parameters())
        hook = module.get_submodule(name.rpartition(".")[0]).register_forward_pre_hook(_reverse)
        try:
            yield
        finally:
            hook.remove()

    def loss(self, v: ClientContext, batch: Batch, output: Tensor, seen: Any) -> Tensor:
        """Return the value of the term."""
        one, other = (half.softmax(1) for half in halves(output[len(output) // 2 :]))
        return -at(self.weight, v.round) * (one - other).abs().mean()


def _reverse(part: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    features = inputs[0]
    labelled = len(features) // 2
    turned: Tensor = Turned.apply(features[labelled:])  # type: ignore[no-untyped-call]
    return (torch.cat([features[:labelled], turned]),)


@made_of(Discrepancy)
def mcd() -> None:
    """Features on which two classifiers agree, without labels (Saito et al., CVPR 2018)."""
