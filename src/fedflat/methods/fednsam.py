"""FedNSAM: SAM on the clients, from a lookahead model along the server's momentum.

Liu et al., FedNSAM: Consistency of Local and Global Flatness for Federated Learning, 2026.

    server   sends y = w + lam m                                m = 0 before round 0, points downhill
    client   u = g_k(w + eps), from y;   eps = rho g_k(w) / ||g_k(w)||      ascent="local"
                                         eps = -rho m / ||m||               ascent="momentum"
    server   m <- lam m + mean(w_k - y);    w <- w + m

With the local ascent this is ``fedacg(beta=0) + sam()``, as the method stands in the public code of
FedSWA. The paper's abstract says that the momentum is also the direction of the perturbation:
``ascent="momentum"``, with one gradient per step and ``m`` sent beside the model. In the repository
of FedNSAM the server's loop reads the new mean where the old momentum belongs, so ``m <- (1 + lam)
mean(w_k - y)`` from the second round on: ``flavour="repo"``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedflat.client.piece import ClientContext, Piece
from fedflat.client.sharpness import Sam
from fedflat.composition.method import Method, method
from fedflat.core.flat import GradFn, unit
from fedflat.core.messages import Broadcast, Replies
from fedflat.core.schedules import Scalar, at, scalar
from fedflat.core.stage import Stage
from fedflat.errors import choice
from fedflat.methods.fedacg import Lookahead
from fedflat.server.piece import Send, ServerContext


@dataclass(frozen=True, repr=False)
class MomentumSam(Piece):
    """The gradient at a perturbation against the server's momentum, constant during local
    training."""

    rho: Scalar

    stage, key = Stage.PROBE, "lookahead"
    stackable = True

    def __post_init__(self) -> None:
        scalar("fednsam", "rho", self.rho)

    def begin(self, v: ClientContext, w: Tensor) -> Tensor:
        v.scratch["eps"] = -at(self.rho, v.round) * unit(v.inbox["m"])
        return w

    def gradient(self, v: ClientContext, grad: GradFn, w: Tensor) -> Tensor:
        return grad(w + v.scratch["eps"])


@dataclass(frozen=True, repr=False)
class NesterovServer(Lookahead):
    """FedACG's server, which may send its momentum, or forget it as the released code does."""

    sends: bool = False
    forgets: bool = False

    def exchange(self, context: ServerContext, send: Send, broadcast: Broadcast) -> Replies:
        """Return the momentum as a pseudo-gradient."""
        m = context.state.get("m")
        lam = at(self.lam, broadcast.round)
        old = torch.zeros_like(broadcast.params) if m is None else m
        ahead = replace(broadcast, params=broadcast.params + lam * old)
        replies = send(ahead.enclose(self.key, m=old) if self.sends else ahead)
        carried = -replies.uniform if self.forgets and m is not None else old
        context.state["m"] = lam * carried - replies.uniform
        return replies.with_delta(-context.state["m"])


@method
def fednsam(
    lam: Scalar = 0.85, rho: Scalar = Sam.rho, ascent: str = "local", flavour: str = "paper"
) -> Method:
    """Local SAM from a lookahead model along the server's momentum (Liu et al., 2026).

    ascent
        Direction of the perturbation: the client's own gradient, "local", or the server's
        "momentum".
    flavour
        "paper", or "repo": the server's momentum has no memory, as in the released code.
    """
    choice("fednsam", "ascent", ascent, ["local", "momentum"])
    choice("fednsam", "flavour", flavour, ["paper", "repo"])
    local = ascent == "local"
    server = NesterovServer(lam, not local, flavour == "repo")
    return Method(
        client=(Sam(rho) if local else MomentumSam(rho),), server=(server,), weighting="uniform"
    )
