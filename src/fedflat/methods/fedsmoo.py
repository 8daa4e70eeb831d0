"""FedSMOO: dual variables make clients agree on one model and on one perturbation.

Sun et al., Dynamic Regularized Sharpness Aware Minimization in Federated Learning: Approaching
Global Consistency and Smooth Landscape, ICML 2023.

    client   q = g_k(w) - mu_k - s;   eps = rho q/||q||;   mu_k <- mu_k + eps - s     every step
             u = g_k(w + eps) - sigma_k + (w - w_sent)/beta
             sigma_k as in FedDyn, alpha = 1/beta
    server   s <- rho m/||m||,  m = mean(mu_k);    sigma and w as in FedDyn

The paper averages ``mu_k`` minus the last ``eps`` (``s_from="mu_minus_eps"``). The authors'
simulator drops that and documents it; so does our default.
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
from fedflat.errors import choice, number
from fedflat.methods.feddyn import Dual, ServerDual
from fedflat.server.piece import Send, ServerContext, ServerPiece


@dataclass(frozen=True, repr=False)
class Smoo(Piece):
    """The client's half: an ascent corrected by its dual ``mu_k`` and the global ``s``."""

    rho: Scalar
    s_from: str = "mu"

    stage, key = Stage.PROBE, "smoo"
    stackable = True
    upload_vectors = 1
    state_vectors = 1
    uploads_private = True
    stateful = True

    def __post_init__(self) -> None:
        scalar("fedsmoo", "rho", self.rho)
        choice("fedsmoo", "s_from", self.s_from, ["mu", "mu_minus_eps"])

    @property
    def oracle_calls(self) -> int:
        return 2

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        v.state.setdefault("mu", torch.zeros_like(w))
        return w

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        """Return the gradient at the corrected perturbation, and update the dual."""
        mu, s = v.state["mu"], v.inbox["s"]
        eps = at(self.rho, v.round) * unit(grad(w) - mu - s)
        v.state["mu"], v.scratch["eps"] = mu + eps - s, eps
        return grad(w + eps)

    def end(self, v: ClientContext, w: Tensor) -> Tensor:
        v.outbox["mu"] = (
            v.state["mu"] - v.scratch["eps"] if self.s_from == "mu_minus_eps" else v.state["mu"]
        )
        return w


@dataclass(frozen=True, repr=False)
class ServerSmoo(ServerPiece):
    """The server's half: the global perturbation ``s``."""

    rho: Scalar

    stage, key = Stage.PROBE, "smoo"
    stateful = True

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Send ``s`` with the model, and compute the new one."""
        s = context.state.get("s", torch.zeros_like(broadcast.params))
        replies = send(broadcast.enclose(self.key, s=s))
        context.state["s"] = at(self.rho, broadcast.round) * unit(replies.mean(self.key, "mu"))
        return replies


@method
def fedsmoo(rho: Scalar = 0.1, beta: float = 10.0, s_from: str = Smoo.s_from) -> Method:
    """Consistent perturbations and models by two sets of duals (Sun et al., ICML 2023)."""
    number("fedsmoo", "beta", beta, low=0, open_low=True)
    client = (Smoo(rho, s_from), Dual(1 / beta))
    return Method(
        client=client, server=(ServerSmoo(rho), ServerDual(1 / beta)), weighting="uniform"
    )
