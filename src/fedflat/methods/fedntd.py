"""FedNTD: a client keeps what the sent model predicts about the classes that are not the true one.

Lee et al., Preservation of the Global Knowledge by Not-True Distillation in Federated Learning,
NeurIPS 2022.

    loss = CE(z, y) + beta T^2 KL( softmax(z_g without y, / T) || softmax(z without y, / T) )

``z_g`` are the scores of the model that was sent. The term is a sum over classes and a mean over
the batch. The authors' shipped configuration has ``T = 1``, the default of their class is 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedflat.client.distillation import check_classes, divergence, scores_of
from fedflat.client.piece import ClientContext, ModelInfo, Term
from fedflat.composition.method import Method, method
from fedflat.core.flat import Model
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.data.examples import Batch
from fedflat.errors import number


@dataclass(frozen=True, repr=False)
class NotTrueDistillation(Term):
    """``beta`` times the distillation of the classes other than the true one.

    beta
        Weight of the term, at least 0.
    T
        Temperature, above 0.
    """

    beta: Scalar = 1.0
    T: float = 1.0

    key = "fedntd"

    def __post_init__(self) -> None:
        scalar("fedntd", "beta", self.beta)
        number("fedntd", "T", self.T, low=0, open_low=True)

    def check(self, model_info: ModelInfo) -> None:
        """Refuse a task without classes, and mixed examples."""
        check_classes("fedntd", model_info, one_label=True)

    def loss(self, v: ClientContext, batch: Batch, output: Tensor, seen: Any) -> Tensor:
        known = scores_of(v, Model(v.sent, v.sent_buffers), batch)
        others = _other_classes(batch.labels, output.shape[-1])
        apart = divergence(known.gather(1, others), output.gather(1, others), self.T)
        return at(self.beta, v.round) * self.T**2 * apart


def _other_classes(labels: Tensor, classes: int) -> Tensor:
    """The classes without the true one, for each example.

    >>> _other_classes(torch.tensor([0, 2]), 3).tolist()
    [[1, 2], [0, 1]]
    """
    places = torch.arange(classes - 1, device=labels.device)
    return places + (places >= labels[:, None])


@method
def fedntd(beta: Scalar = NotTrueDistillation.beta, T: float = NotTrueDistillation.T) -> Method:
    """Distillation of the classes other than the true one (Lee et al., NeurIPS 2022)."""
    return Method(client=(NotTrueDistillation(beta, T),))
