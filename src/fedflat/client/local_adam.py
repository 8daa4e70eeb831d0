"""Adam and AdamW as the optimizer of clients.

Kingma and Ba, Adam: A Method for Stochastic Optimization, ICLR 2015. Loshchilov and Hutter,
Decoupled Weight Decay Regularization, ICLR 2019.

    m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2,   t <- t + 1
    u =  (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + decay w
    w <- w - lr u

``g`` is the gradient that the other pieces give, after clipping and weight decay: the run's weight
decay is Adam's L2 penalty, ``decay`` is AdamW's. ``m``, ``v`` and ``t`` start at 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.gradient_transforms import Momentum
from fedflat.client.piece import ClientContext, ModelInfo, Piece
from fedflat.core.flat import GradFn
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.errors import SettingError, number

MOMENTS = ("m", "v", "t")


@dataclass(frozen=True, repr=False)
class LocalAdam(Piece):
    """Adam whose moments start anew in every exchange."""

    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8
    decay: Scalar = 0.0

    stage, key = Stage.OPTIMIZER, "local_adam"
    stackable = True
    stateful = True

    def __post_init__(self) -> None:
        for name in ("b1", "b2"):
            number("local_adam", name, getattr(self, name), low=0, high=1)
            if getattr(self, name) == 1:
                raise SettingError(f"local_adam: {name} must be less than 1, found 1.")
        number("local_adam", "eps", self.eps, low=0, open_low=True)
        scalar("local_adam", "weight decay", self.decay)

    def check(self, model_info: ModelInfo) -> None:
        if any(isinstance(piece, Momentum) for piece in model_info.pieces):
            raise SettingError(
                "local_adam has a first moment of its own, so local momentum cannot be added to "
                "it. Use momentum 0, and b1 for the first moment."
            )

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        before = self.moments_before(v)
        zero = torch.zeros_like(w)
        start = {"m": zero, "v": zero, "t": torch.zeros_like(w[..., :1])}
        for name in MOMENTS:
            v.scratch[name] = before.get(name, start[name])
        return w

    def moments_before(self, v: ClientContext) -> dict[str, Tensor]:
        """Moments of an earlier exchange; empty at the start."""
        return {}

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        g, s = grad(w), v.scratch
        s["m"] = torch.lerp(g, s["m"], self.b1)
        s["v"] = self.b2 * s["v"] + (1 - self.b2) * g * g
        s["t"] = s["t"] + 1
        first = s["m"] / (1 - self.b1 ** s["t"])
        second = s["v"] / (1 - self.b2 ** s["t"])
        step: Tensor = first / (second.sqrt() + self.eps)
        decay = at(self.decay, v.round)
        return torch.add(step, w, alpha=decay) if decay else step


@dataclass(frozen=True, repr=False)
class PersistentLocalAdam(LocalAdam):
    """Adam whose moments each client stores for its next exchange."""

    state_vectors = 2

    def moments_before(self, v: ClientContext) -> dict[str, Tensor]:
        return v.state

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        v.state.update({name: v.scratch[name] for name in MOMENTS})
        return w


@dataclass(frozen=True, repr=False)
class AveragedLocalAdam(LocalAdam):
    """Adam whose moments are averaged by the server and sent with the model."""

    upload_vectors = 2
    uploads_private = True

    def moments_before(self, v: ClientContext) -> dict[str, Tensor]:
        # They were corrected before they were sent: infinitely many steps need no correction.
        # Before the first replies they are 0, as after no step.
        none = torch.zeros_like(v.inbox["v"][..., :1])
        steps = torch.where(v.inbox["v"].any(dim=-1, keepdim=True), torch.inf, none)
        return {**v.inbox, "t": steps}

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """Send the moments, corrected for their start at 0."""
        s = v.scratch
        v.outbox["m"] = s["m"] / (1 - self.b1 ** s["t"])
        v.outbox["v"] = s["v"] / (1 - self.b2 ** s["t"])
        return w
