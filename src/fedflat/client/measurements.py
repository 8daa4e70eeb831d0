"""Pieces that measure at the clients and change nothing: what is watched there. They can be said in
text, so a client elsewhere can be told to measure."""

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
"""The name under which the reply tells how far the client has gone."""


@register("measure", "epoch_ends")
@dataclass(frozen=True, repr=False)
class EpochEnds(Piece):
    """Measures at the end of each epoch how far the client has gone; near the step, so that it is
    asked once each."""

    inside: bool = True
    """Whether epochs that end before the visit does count."""

    stage, key = Stage.OPTIMIZER, "watch_drift"
    stackable = True

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """The gradient as it is; ``w`` is where the step before has led."""
        if v.steps and self._ends(v):
            self._measure(v, w)
        return grad(w)

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """The last epoch ends with the visit."""
        self._measure(v, v.end)
        v.scratch[METRICS] = {DRIFT: torch.stack(v.scratch.pop("gone")).mean(dim=0)}
        return w

    def _ends(self, v: ClientContext) -> bool:
        """Whether an epoch was over with the step before."""
        epochs = int(v.epochs)
        whole = self.inside and epochs == v.epochs and epochs > 0 and v.planned_steps % epochs == 0
        return whole and v.steps % (v.planned_steps // epochs) == 0

    def _measure(self, v: ClientContext, w: Tensor) -> None:
        v.scratch.setdefault("gone", []).append(
            torch.linalg.vector_norm(w - v.sent, dim=-1).double()
        )
