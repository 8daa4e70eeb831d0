"""FedTOGA: the perturbation follows the client's gradients and the global update.

Li et al., arXiv 2408.14144, 2024.

    D        the mean update of the last round divided by its steps; points uphill, 0 at first
    client   s   = g_k(w) + past g' + kappa D           g': the gradient of the step before, 0 at first
             g   = g_k(w + rho s / ||s||);   g' <- g
             u   = g - sigma_k + alpha (w - w_sent) + beta D
             sigma_k <- sigma_k - alpha (w_k - w_sent)
    server   FedDyn's:  w <- mean(w_k) - sigma / alpha;    D <- mean(delta_k) / tau

The authors' code was not found. This is what two other public implementations have in common; one
of them has ``h_k - w_sent`` where ``D`` belongs. The paper's cheaper form, with ``g'`` in place of
``g_k(w)``, is in neither and is not implemented. With ``beta = kappa = past = 0`` the method is
``feddyn(alpha) + sam(rho)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedflat.client.piece import ClientContext, Piece
from fedflat.composition.method import Method, method
from fedflat.core.flat import GradFn, unit
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.methods.feddyn import Dual, ServerDual
from fedflat.server.piece import Send, ServerContext, ServerPiece


@dataclass(frozen=True, repr=False)
class TrajectorySam(Piece):
    """The client's half: perturbed along a sum of three directions, and pulled along ``D``."""

    rho: Scalar
    beta: Scalar
    kappa: Scalar
    past: Scalar

    stage, key = Stage.PROBE, "fedtoga"
    stackable = True
    stateful = True
    needs_server_model = True

    def __post_init__(self) -> None:
        for name in ("rho", "beta", "kappa", "past"):
            scalar("fedtoga", name, getattr(self, name))

    @property
    def oracle_calls(self) -> int:
        return 2

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return ``g(w + eps) + beta D``."""
        direction = v.inbox["direction"]
        ascent = torch.add(grad(w), direction, alpha=at(self.kappa, v.round))
        if "last" in v.scratch:
            ascent = torch.add(ascent, v.scratch["last"], alpha=at(self.past, v.round))
        g = v.scratch["last"] = grad(torch.add(w, unit(ascent), alpha=at(self.rho, v.round)))
        return torch.add(g, direction, alpha=at(self.beta, v.round))


@dataclass(frozen=True, repr=False)
class MeanStep(ServerPiece):
    """The server's half: sends the last mean update divided by its steps."""

    stage, key = Stage.CORRECT, "fedtoga"
    stateful = True

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Send the direction with the model, and store the new one."""
        direction = context.state.get("direction", torch.zeros_like(broadcast.params))
        replies = send(broadcast.enclose(self.key, direction=direction))
        context.state["direction"] = replies.uniform / replies.steps
        return replies


@method
def fedtoga(
    rho: Scalar = 0.1,
    alpha: Scalar = 0.1,
    beta: Scalar = 0.9,
    kappa: Scalar = 1.0,
    past: Scalar = 1.0,
) -> Method:
    """Perturbations along local and global updates, with dual variables (Li et al., 2024).

    alpha
        Weight of FedDyn's pull, above 0.
    beta, kappa
        Weight of the global update in the step and in the perturbation.
    past
        Weight of the last step's gradient in the perturbation.
    """
    return Method(
        client=(TrajectorySam(rho, beta, kappa, past), Dual(alpha)),
        server=(MeanStep(), ServerDual(alpha)),
        weighting="uniform",
    )
