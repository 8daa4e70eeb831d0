"""FedLESAM: perturbs along the last global change that the client saw; one gradient per step.

Fan et al., Locally Estimated Global Perturbations are Better than Local Perturbations for Federated
Sharpness-aware Minimization, ICML 2024.

    client   eps_k = rho (w_old_k - w_sent) / ||w_old_k - w_sent||       0 at first
             u = g_k(w + eps_k);    afterwards  w_old_k <- w_sent

FedLESAM-S is ``fedlesam() + scaffold()``, FedLESAM-D ``fedlesam() + feddyn()``. The released code
perturbs each tensor by one number (it indexes the flat vector by the tensor's position) and uses
the last server update for all clients; we follow the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedflat.client.piece import ClientContext, Piece
from fedflat.composition.method import Method, method
from fedflat.core.flat import GradFn, unit
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage


@dataclass(frozen=True, repr=False)
class Lesam(Piece):
    """The gradient at a perturbation that is constant during local training."""

    rho: Scalar

    stage, key = Stage.PROBE, "lesam"
    stackable = True
    state_vectors = 1

    def __post_init__(self) -> None:
        scalar("fedlesam", "rho", self.rho)

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        """Estimate the global ascent direction from the model received last time."""
        v.scratch["eps"] = at(self.rho, v.round) * unit(v.state.get("seen", v.sent) - v.sent)
        v.state["seen"] = v.sent
        return w

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return ``g(w + eps_k)``."""
        return grad(w + v.scratch["eps"])


@method
def fedlesam(rho: Scalar = 0.1) -> Method:
    """Client steps along the estimated global perturbation (Fan et al., ICML 2024)."""
    return Method(client=(Lesam(rho),), weighting="uniform")
