"""Sharpness-aware gradients: the gradient is computed at the highest loss nearby.

Foret et al., Sharpness-Aware Minimization for Efficiently Improving Generalization, ICLR 2021
(SAM). Kwon et al., ASAM: Adaptive Sharpness-Aware Minimization for Scale-Invariant Learning, ICML
2021 (ASAM).

    SAM     eps = rho g / ||g||                   u = grad(w + eps)
    ASAM    eps = rho T^2 g / ||T g||             T = |w| + eta for weights, 1 for biases

The norm is that of the whole vector. Both gradients of a step use the same batch. Weight decay and
corrections come after, so they are no part of the ascent.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.piece import ClientContext, Piece
from fedflat.core.flat import GradFn, Layout, unit
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.errors import choice


@dataclass(frozen=True, repr=False)
class Sam(Piece):
    """The gradient at the first-order maximum of the loss in a ball of radius ``rho``."""

    rho: Scalar = 0.05

    stage, key = Stage.PROBE, "sam"
    stackable = True

    def __post_init__(self) -> None:
        scalar("sam", "rho", self.rho)

    @property
    def oracle_calls(self) -> int:
        """Two: one for the ascent, one for the step."""
        return 2

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return the gradient at ``w + rho g / ||g||``."""
        return grad(torch.add(w, unit(grad(w)), alpha=at(self.rho, v.round)))


@dataclass(frozen=True, repr=False)
class Asam(Piece):
    """SAM in coordinates scaled by the size of the weights.

    ``variant="weights"`` scales parameters called "weight" by ``|w| + eta`` and leaves biases as
    they are, as the authors' code does; ``variant="elementwise"`` scales every parameter by ``|w|``
    and has no ``eta``.
    """

    rho: Scalar = 0.5
    eta: Scalar = 0.2
    variant: str = "weights"

    stage, key = Stage.PROBE, "asam"
    stackable = True

    def __post_init__(self) -> None:
        scalar("asam", "rho", self.rho)
        scalar("asam", "eta", self.eta)
        choice("asam", "variant", self.variant, ["weights", "elementwise"])

    @property
    def oracle_calls(self) -> int:
        """Two: one for the ascent, one for the step."""
        return 2

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        v.scratch["weights"] = weights(v.layout).to(w.device)
        return w

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return the gradient at ``w + rho T^2 g / ||T g||``."""
        if self.variant == "weights":
            scale = torch.where(v.scratch["weights"], w.abs() + at(self.eta, v.round), 1.0)
        else:
            scale = w.abs()
        return grad(torch.add(w, scale * unit(scale * grad(w)), alpha=at(self.rho, v.round)))


def weights(layout: Layout) -> Tensor:
    """Return a mask of the parameters called "weight".

    If there are none, return those with two axes or more.
    """
    named = layout.where(lambda name, shape: "weight" in name)
    return named if named.any() else layout.where(lambda name, shape: len(shape) >= 2)


@dataclass(frozen=True, repr=False)
class LayerwiseSam(Piece):
    """SAM whose perturbation has the radius ``rho`` in every tensor separately."""

    rho: Scalar = 0.05

    stage, key = Stage.PROBE, "layerwise_sam"
    stackable = True

    def __post_init__(self) -> None:
        scalar("layerwise_sam", "rho", self.rho)

    @property
    def oracle_calls(self) -> int:
        """Two: one for the ascent, one for the step."""
        return 2

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return the gradient at ``w + rho g_l / ||g_l||`` for each tensor ``l``."""
        parts = torch.split(grad(w), list(v.layout.sizes), dim=-1)
        return grad(
            torch.add(
                w, torch.cat([unit(part) for part in parts], dim=-1), alpha=at(self.rho, v.round)
            )
        )


@dataclass(frozen=True, repr=False)
class LastSam(Piece):
    """SAM that ascends along the gradient of the previous step: one gradient per step.

    The first step has no ascent. The gradient is stored between rounds, which matters in
    centralised training only.
    """

    rho: Scalar = 0.05

    stage, key = Stage.PROBE, "last_sam"
    stackable = True
    state_vectors = 1
    stateful = True

    def __post_init__(self) -> None:
        scalar("last_sam", "rho", self.rho)

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return the gradient at ``w + rho g' / ||g'||``."""
        last = v.state.get("g")
        g = grad(w if last is None else torch.add(w, unit(last), alpha=at(self.rho, v.round)))
        v.state["g"] = g
        return g
