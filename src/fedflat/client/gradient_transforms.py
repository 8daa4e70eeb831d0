"""What is done to a gradient on its way to the step: pulled back, clipped, decayed, smoothed.

The order is fixed by their stages: corrections, then the clip, then weight decay (at the
unperturbed point, never clipped), then momentum, whose buffer starts anew in every visit.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.piece import ClientContext, Piece
from fedflat.core.flat import GradFn
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.errors import choice


@dataclass(frozen=True, repr=False)
class Prox(Piece):
    """Pulls towards what the server sent: ``g + mu (w - w_sent)``, the gradient of ``mu/2 ||w -
    w_sent||^2``."""

    mu: Scalar = 0.1

    stage, key = Stage.CORRECT, "prox"
    stackable = True

    def __post_init__(self) -> None:
        scalar("prox", "mu", self.mu)

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """The gradient with the pull."""
        return torch.add(grad(w), w - v.sent, alpha=at(self.mu, v.round))


@dataclass(frozen=True, repr=False)
class Clip(Piece):
    """Shrinks the direction to norm ``norm`` if it is longer."""

    norm: Scalar = 10.0

    stage, key = Stage.LIMIT, "clip"
    stackable = True

    def __post_init__(self) -> None:
        scalar("clip", "norm", self.norm, open_low=True)

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """The direction, no longer than ``norm``."""
        g, most = grad(w), at(self.norm, v.round)
        length: Tensor = torch.linalg.vector_norm(g, dim=-1, keepdim=True).clamp(min=most)
        if g.device.type == "cpu" and bool(
            (length == most).all()
        ):  # elsewhere to look would be to wait
            return g
        return g * (torch.full_like(length, most) / length)  # exactly 1 if it is short enough


@dataclass(frozen=True, repr=False)
class WeightDecay(Piece):
    """Weight decay: ``g + rate * w``."""

    rate: Scalar

    stage, key = Stage.DECAY, "decay"
    stackable = True

    def __post_init__(self) -> None:
        scalar("weight decay", "rate", self.rate)

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """The direction with the decay."""
        return torch.add(grad(w), w, alpha=at(self.rate, v.round))


@dataclass(frozen=True, repr=False)
class Momentum(Piece):
    """Heavy ball: ``m <- mu m + g``, ``m = g`` in the first step; ``keep`` carries ``m`` to the
    next visit."""

    mu: Scalar
    keep: bool = False

    stage, key = Stage.OPTIMIZER, "momentum"
    stackable = True
    stateful = True

    def __post_init__(self) -> None:
        scalar("local momentum", "mu", self.mu, high=1)

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        """Take up the kept buffer, if any."""
        v.scratch["m"] = v.state.get("m")
        return w

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """The smoothed direction."""
        m, g = v.scratch["m"], grad(w)
        v.scratch["m"] = g if m is None else torch.add(g, m, alpha=at(self.mu, v.round))
        return v.scratch["m"]  # type: ignore[no-any-return]

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """Keep the buffer, if asked to."""
        if self.keep:
            v.state["m"] = v.scratch["m"]
        return w


@dataclass(frozen=True, repr=False)
class Only(Piece):
    """Moves one block only and freezes the rest: "classifier" (the last layer) or "features" (all
    but it)."""

    block: str

    stage, key = Stage.LIMIT, "only"
    stackable = True

    def __post_init__(self) -> None:
        choice("only", "block", self.block, ["classifier", "features"])

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        """Note which coordinates move."""
        head = v.layout.classifier().to(w.device)
        v.scratch["moving"] = head if self.block == "classifier" else ~head
        return w

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """The direction within the block."""
        return torch.where(v.scratch["moving"], grad(w), 0.0)
