"""Pieces that change a gradient before the step: proximal term, clip, weight decay, momentum; and
a learning rate that decreases within local training.

Their stages fix the order: corrections, then the clip, then weight decay (at the unperturbed point,
never clipped), then momentum. The momentum buffer starts anew in every exchange.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.piece import ClientContext, Piece
from fedflat.core.flat import GradFn
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.errors import choice, number


@dataclass(frozen=True, repr=False)
class Prox(Piece):
    """Proximal term ``g + mu (w - w_sent)``: the gradient of ``mu/2 ||w - w_sent||^2``."""

    mu: Scalar = 0.1

    stage, key = Stage.CORRECT, "prox"
    stackable = True

    def __post_init__(self) -> None:
        scalar("prox", "mu", self.mu)

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return the gradient with the proximal term."""
        return torch.add(grad(w), w - v.sent, alpha=at(self.mu, v.round))


@dataclass(frozen=True, repr=False)
class Clip(Piece):
    """Scales the gradient down to norm ``norm`` if it is longer."""

    norm: Scalar = 10.0

    stage, key = Stage.LIMIT, "clip"
    stackable = True

    def __post_init__(self) -> None:
        scalar("clip", "norm", self.norm, open_low=True)

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        g, limit = grad(w), at(self.norm, v.round)
        length: Tensor = torch.linalg.vector_norm(g, dim=-1, keepdim=True).clamp(min=limit)
        # Reading the result would wait for a GPU, and would cut a compiled step in two.
        reads = g.device.type == "cpu" and not torch.compiler.is_compiling()
        if reads and bool((length == limit).all()):
            return g
        return g * (torch.full_like(length, limit) / length)  # exactly 1 if it is short enough


@dataclass(frozen=True, repr=False)
class WeightDecay(Piece):
    """Weight decay: ``g + rate * w``."""

    rate: Scalar

    stage, key = Stage.DECAY, "decay"
    stackable = True

    def __post_init__(self) -> None:
        scalar("weight decay", "rate", self.rate)

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return the gradient with the decay."""
        return torch.add(grad(w), w, alpha=at(self.rate, v.round))


@dataclass(frozen=True, repr=False)
class Momentum(Piece):
    """Heavy-ball momentum: ``m <- mu m + g``, with ``m = g`` in the first step.

    With ``keep`` the buffer ``m`` is stored for the next exchange.
    """

    mu: Scalar
    keep: bool = False

    stage, key = Stage.OPTIMIZER, "momentum"
    stackable = True
    stateful = True

    def __post_init__(self) -> None:
        scalar("local momentum", "mu", self.mu, high=1)

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        """Load the stored buffer, if any."""
        v.scratch["m"] = v.state.get("m")
        return w

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        m, g = v.scratch["m"], grad(w)
        v.scratch["m"] = g if m is None else torch.add(g, m, alpha=at(self.mu, v.round))
        return v.scratch["m"]  # type: ignore[no-any-return]

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        """Store the buffer if ``keep`` is set."""
        if self.keep:
            v.state["m"] = v.scratch["m"]
        return w


@dataclass(frozen=True, repr=False)
class Only(Piece):
    """Trains one block only: "classifier" (the last layer) or "features" (all others).

    The instruction `FineTune` trains the last layer with it.
    """

    block: str

    stage, key = Stage.LIMIT, "only"
    stackable = True

    def __post_init__(self) -> None:
        choice("only", "block", self.block, ["classifier", "features"])

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        """Compute the mask of the block."""
        head = v.layout.classifier().to(w.device)
        v.scratch["mask"] = head if self.block == "classifier" else ~head
        return w

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return the gradient within the block."""
        return torch.where(v.scratch["mask"], grad(w), 0.0)


@dataclass(frozen=True, repr=False)
class PolyRate(Piece):
    """Step i of tau uses ``(1 - i / (factor tau))^power`` of the round's learning rate."""

    power: float = 0.9
    factor: float = 1.0

    stage, key = Stage.OPTIMIZER, "poly_rate"
    stackable = True

    def __post_init__(self) -> None:
        number("poly_rate", "power", self.power, low=0)
        number("poly_rate", "factor", self.factor, low=1)

    def lr_factor(self, v: ClientContext) -> float:
        """Return the factor of this step."""
        return float((1 - v.steps / (self.factor * v.planned_steps)) ** self.power)
