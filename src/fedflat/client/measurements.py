"""Pieces that measure during local training and change nothing, for recorded metrics.

They have a text form, so that clients on other machines can measure, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.piece import ClientContext, Piece
from fedflat.client.training import METRICS
from fedflat.core.flat import GradFn
from fedflat.core.stage import Stage
from fedflat.registry.specs import register

DRIFT = "drift"
"""Name of the metric in the reply: distance of the client's parameters from those it was sent."""


@register("measure", "epoch_ends")
@dataclass(frozen=True, repr=False)
class EpochEnds(Piece):
    """Measures the client's distance from the model it was sent at the end of each epoch."""

    inside: bool = True
    """False measures only after the last step."""

    stage, key = Stage.OPTIMIZER, "watch_drift"
    stackable = True

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return the gradient unchanged. ``w`` is the result of the previous step."""
        if v.steps and self._ends(v):
            self._measure(v, w)
        return grad(w)

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """Measure after the last step, and report the mean over the epochs."""
        self._measure(v, v.end)
        v.scratch[METRICS] = {DRIFT: torch.stack(v.scratch.pop("distances")).mean(dim=0)}
        return w

    def _ends(self, v: ClientContext) -> bool:
        """Whether the previous step ended an epoch."""
        epochs = int(v.epochs)
        whole = self.inside and epochs == v.epochs and epochs > 0 and v.planned_steps % epochs == 0
        return whole and v.steps % (v.planned_steps // epochs) == 0

    def _measure(self, v: ClientContext, w: Tensor) -> None:
        v.scratch.setdefault("distances", []).append(
            torch.linalg.vector_norm(w - v.sent, dim=-1).double()
        )
