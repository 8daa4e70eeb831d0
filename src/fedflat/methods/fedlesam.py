"""FedLESAM: perturbs along the last global change that the client saw; one gradient per step.

Fan et al., Locally Estimated Global Perturbations are Better than Local Perturbations for Federated
Sharpness-aware Minimization, ICML 2024.

    client   eps_k = rho (w_old_k - w_sent) / ||w_old_k - w_sent||       0 at first
             u = g_k(w + eps_k);    afterwards  w_old_k <- w_sent

FedLESAM-S adds SCAFFOLD's control variates (``fedlesam_s``), FedLESAM-D FedDyn's dual variables
(``fedlesam_d``).

The released code takes the last server update for all clients, ``d = w_before - w_sent``, and
indexes this flat vector by the position of a tensor in the network. So every tensor is moved by one
number, and the length is a sum of absolute values: ``eps of tensor j = rho d_j / sum_i |d_i|``, i
and j counting the tensors. That is ``flavour="repo"``; the server sends ``d``. We follow the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.piece import ClientContext, Piece
from fedflat.composition.method import Method, method
from fedflat.core.flat import GradFn, Layout, unit
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.errors import choice
from fedflat.methods.feddyn import feddyn
from fedflat.methods.scaffold import scaffold
from fedflat.server.piece import Send, ServerContext, ServerPiece


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
        return grad(w + v.scratch["eps"])


def one_number_per_tensor(d: Tensor, layout: Layout) -> Tensor:
    """Return the vector whose tensor ``j`` has the entry ``d_j / sum_i |d_i|`` everywhere.

    ``i`` and ``j`` count the tensors, so only the first entries of ``d`` are used.
    """
    first = d[..., : len(layout.sizes)]
    first = first / (first.abs().sum(dim=-1, keepdim=True) + 1e-7)
    sizes = torch.tensor(layout.sizes, device=d.device)
    return first.repeat_interleave(sizes, dim=-1, output_size=sum(layout.sizes))


@dataclass(frozen=True, repr=False)
class IndexedLesam(Piece):
    """The released code: one number per tensor, from the last server update."""

    rho: Scalar

    stage, key = Stage.PROBE, "lesam"
    stackable = True

    def __post_init__(self) -> None:
        scalar("fedlesam", "rho", self.rho)

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        direction = one_number_per_tensor(v.inbox["back"], v.layout)
        v.scratch["eps"] = at(self.rho, v.round) * direction
        return w

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        return grad(w + v.scratch["eps"])


@dataclass(frozen=True, repr=False)
class LastUpdate(ServerPiece):
    """Sends the model of the last round minus that of this round; 0 in round 0."""

    stage, key = Stage.CORRECT, "lesam"
    stateful = True

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        back = context.state.get("before", broadcast.params) - broadcast.params
        context.state["before"] = broadcast.params
        return send(broadcast.enclose(self.key, back=back))


@method
def fedlesam(rho: Scalar = 0.1, flavour: str = "paper") -> Method:
    """Client steps along the estimated global perturbation (Fan et al., ICML 2024).

    flavour
        "paper", or "repo": one number per tensor, from the last server update, as in the released
        code.
    """
    choice("fedlesam", "flavour", flavour, ["paper", "repo"])
    if flavour == "repo":
        return Method(client=(IndexedLesam(rho),), server=(LastUpdate(),), weighting="uniform")
    return Method(client=(Lesam(rho),), weighting="uniform")


@method
def fedlesam_s(rho: Scalar = 0.1, flavour: str = "paper") -> Method:
    """FedLESAM with SCAFFOLD's control variates: FedLESAM-S (Fan et al., ICML 2024)."""
    return fedlesam(rho, flavour) + scaffold()


@method
def fedlesam_d(rho: Scalar = 0.1, alpha: Scalar = 0.1, flavour: str = "paper") -> Method:
    """FedLESAM with FedDyn's dual variables: FedLESAM-D (Fan et al., ICML 2024)."""
    return fedlesam(rho, flavour) + feddyn(alpha)
